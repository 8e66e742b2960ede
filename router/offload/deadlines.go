package offload

import (
	"cmp"
	"math"
	"slices"
)

// Gearshift serves who has to be served next: by when, follows from the strides that a client may still have, so that
// its intervals are mixed and it uses up what its SLA leaves. Batches are of the size that carries most clients of the
// kind of the most urgent one. Who costs most goes first.
const Gearshift Policy = "gearshift"

// Gap returns the accuracy that results of a model lose beside those of the first.
func (s *Server) Gap(model int) float64 { return s.model(model).Gap }

// model returns a model: the first, or one of the smaller ones.
func (s *Server) model(m int) Size {
	if m == 0 {
		return Size{Latency: s.Latency}
	}
	return s.Smaller[m-1]
}

// Allowed returns the mean stride with which the client loses just what its SLA allows, of results of a model.
func (s *Server) Allowed(c *Client, model int) float64 {
	if !(c.Rate > 0) {
		return float64(s.Longest)
	}
	return min((c.SLA-s.Gap(model))/c.Rate+s.Reference(c), float64(s.Longest))
}

// Share returns the part of the server that the client takes in the batches that cost it least, and their model and
// size; +Inf if none keeps its SLA. Intervals need not be whole, and no grace is left: the sum over clients that can be
// served at once is 1 at most.
func (s *Server) Share(c *Client) (share float64, model, batch int) {
	return s.share(c, len(s.Smaller))
}

// share is Share with so many of the smaller models.
func (s *Server) share(c *Client, smaller int) (share float64, model, batch int) {
	share = math.Inf(1)
	for m := range 1 + smaller {
		latency, allowed := s.model(m).Latency, s.Allowed(c, m)
		for n, l := range latency {
			interval := min(2*(allowed-float64(frames(c.Network+l)))+1, float64(s.Longest))
			if interval < 1 {
				continue
			}
			if x := l / float64(n+1) / interval; x < share*(1-Same) {
				share, model, batch = x, m, n+1
			}
		}
	}
	return share, model, batch
}

// Serve follows a request of the client that was put into a batch of a model: the result of the frame serves it from
// the frame ready on. What the result before has gained or lost on the strides that are allowed is its credit.
func (s *Server) Serve(c *Client, frame, ready, model int) {
	allowed := s.Allowed(c, c.Model)
	if m := float64(ready - c.Ready); c.Ready > 0 && m > 0 {
		c.Credit += m * (allowed - float64(c.Ready-c.Last) - (m-1)/2)
		c.Credit = min(max(c.Credit, -mostCredit*allowed), mostCredit*allowed)
	}
	c.Last, c.Ready, c.Model = frame, ready, model
}

// mostCredit bounds what a client may have gained or lost, as a multiple of the allowed stride: an SLA holds in each
// second.
const mostCredit = 4

// lag returns how much later than its number a frame of the client arrives.
func (c *Client) lag() float64 { return c.Arrival - float64(c.Last) + c.Late }

// due is a client, by when its next batch has to start, and the model and size of that which cost it least.
type due struct {
	client       int
	at           float64
	model, batch int
}

func (a due) compare(b due) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.client, b.client))
}

// deadline sets by when the next batch of the client has to start.
func (p *Planner) deadline(d *due) {
	c := &p.book[d.client]
	if d.at = math.Inf(-1); c.Ready <= 0 {
		return
	}
	room := p.Allowed(c, c.Model) + 0.5 - float64(c.Ready-c.Last)
	m := room + math.Sqrt(max(0, room*room+2*c.Credit))
	d.at = float64(c.Ready) + math.Floor(max(1, m)+Same) + p.lag[d.client] - c.Network - p.model(d.model).Latency[d.batch-1]
}

// parts bounds into how many batches those that are kept are divided.
const parts = 8

// byDeadlines is [Planner.fits] of [Gearshift]. Batches are of the sizes that suit clients of each kind, or where that
// leaves a batch too many, of sizes into which those that are kept divide; of all models, or, where batches of one are
// too few, of the first alone.
func (p *Planner) byDeadlines(clients []Client, start, horizon float64) bool {
	for smaller := len(p.Smaller); ; smaller = 0 {
		if p.urgent(clients, start, horizon, len(p.Latency), smaller) {
			return true
		}
		before := len(p.Latency)
		for k := 1; k <= parts; k++ {
			if n := (len(p.kept) + k - 1) / k; n < before && n > 0 {
				if p.urgent(clients, start, horizon, n, smaller) {
					return true
				}
				before = n
			}
		}
		if smaller == 0 {
			return false
		}
	}
}

// urgent makes batches of the most urgent clients until the horizon, of at most so many and of so many of the smaller
// models, and reports whether all keep their SLAs.
func (p *Planner) urgent(clients []Client, start, horizon float64, most, smaller int) bool {
	p.requests, p.batches, p.queue, p.lag = p.requests[:0], p.batches[:0], p.queue[:0], p.lag[:0]
	p.book = append(p.book[:0], clients...)
	for i := range clients {
		p.lag = append(p.lag, clients[i].lag())
	}
	for _, i := range p.kept {
		_, model, n := p.share(&clients[i], smaller)
		p.queue = append(p.queue, due{client: i, model: model, batch: max(1, min(n, most))})
		p.deadline(&p.queue[len(p.queue)-1])
	}
	slices.SortFunc(p.queue, due.compare)
	kept := true
	for t := start; t < start+horizon && len(p.queue) > 0; {
		p.take(t)
		for _, d := range p.batch { // a frame is sent once
			t = max(t, float64(p.book[d.client].Last+1)+p.lag[d.client])
		}
		first, n, model := len(p.requests), len(p.batch), p.batch[0].model
		took := (1 + p.spare) * p.model(model).Latency[n-1]
		for _, d := range p.batch {
			c, lag := &p.book[d.client], p.lag[d.client]
			frame := int(math.Floor(t - lag + Same))
			p.requests = append(p.requests, Request{Client: d.client, Frame: frame, Arrival: t})
			forgiven := p.forgives && c.Last == clients[d.client].Last
			p.Serve(c, frame, frames(t-lag+c.Network+took), model)
			if forgiven {
				c.Credit = max(0, c.Credit)
			}
			least := min(-Same, clients[d.client].Credit)
			if p.forgives { // a batch may be late by part of a frame; a second has many
				least -= p.Allowed(c, model)
			}
			kept = kept && c.Credit >= least
			p.deadline(&d)
			k, _ := slices.BinarySearchFunc(p.queue, d, due.compare)
			p.queue = slices.Insert(p.queue, k, d)
		}
		p.batches = append(p.batches, Batch{Start: t, Requests: p.requests[first:len(p.requests):len(p.requests)], Model: model})
		t += (1 + p.Grace) * took
	}
	return kept
}

// late bounds how long a batch waits for a client that has no frame for it yet, in frames, where others have.
const late = 2

// take moves the next batch out of the queue: the most urgent client, and the most urgent of those that the same model
// suits. Those who would hold the others up, since what they send comes later than before, are left for the next.
func (p *Planner) take(t float64) {
	ready := func(d due) bool { return float64(p.book[d.client].Last+1)+p.lag[d.client] <= t+late }
	head := p.queue[max(0, slices.IndexFunc(p.queue, ready))]
	p.batch = p.batch[:0]
	rest := p.queue[:0]
	for _, d := range p.queue {
		if d.client == head.client || d.model == head.model && len(p.batch) < head.batch && ready(d) {
			p.batch = append(p.batch, d)
		} else {
			rest = append(rest, d)
		}
	}
	p.queue = rest
}

// costliest returns the place in kept of the client that takes the largest part of the server.
func (p *Planner) costliest(clients []Client) (place int) {
	most := -1.0
	for k, i := range p.kept {
		if x, _, _ := p.Share(&clients[i]); x > most {
			place, most = k, x
		}
	}
	return place
}
