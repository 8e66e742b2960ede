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

// Allowed returns the mean stride with which the client loses just what its SLA allows.
func (s *Server) Allowed(c *Client) float64 {
	if !(c.Rate > 0) {
		return float64(s.Longest)
	}
	return min(c.SLA/c.Rate+s.Reference(c), float64(s.Longest))
}

// Share returns the part of the server that the client takes in the batches that cost it least, and their size; +Inf
// if none keeps its SLA. Intervals need not be whole, and no grace is left: the sum over clients that can be served at
// once is 1 at most.
func (s *Server) Share(c *Client) (share float64, batch int) {
	share, allowed := math.Inf(1), s.Allowed(c)
	for n := range s.Latency {
		interval := min(2*(allowed-float64(s.EndToEnd(c, n+1)))+1, float64(s.Longest))
		if interval < 1 {
			continue
		}
		if x := s.Latency[n] / float64(n+1) / interval; x < share*(1-Same) {
			share, batch = x, n+1
		}
	}
	return share, batch
}

// Serve follows a request of the client that was put into a batch: the result of the frame serves it from the frame
// ready on. What it has gained or lost on the strides that are allowed is its credit.
func (c *Client) Serve(allowed float64, frame, ready int) {
	if m := float64(ready - c.Ready); c.Ready > 0 && m > 0 {
		c.Credit += m * (allowed - float64(c.Ready-c.Last) - (m-1)/2)
		c.Credit = min(max(c.Credit, -mostCredit*allowed), mostCredit*allowed)
	}
	c.Last, c.Ready = frame, ready
}

// mostCredit bounds what a client may have gained or lost, as a multiple of the allowed stride: an SLA holds in each
// second.
const mostCredit = 4

// lag is how much later than its number a frame of the client arrives.
func (c *Client) lag() float64 { return c.Arrival - float64(c.Last) + c.Late }

// due is a client, and by when its next batch has to start.
type due struct {
	client int
	at     float64
}

// deadline returns by when a batch of n with the client has to start.
func (p *Planner) deadline(c *Client, lag, allowed float64, n int) float64 {
	if c.Ready <= 0 {
		return math.Inf(-1)
	}
	room := allowed + 0.5 - float64(c.Ready-c.Last)
	m := room + math.Sqrt(max(0, room*room+2*c.Credit))
	return float64(c.Ready) + math.Floor(max(1, m)+Same) + lag - c.Network - p.Latency[n-1]
}

// parts is into how many batches those that are kept are divided at most.
const parts = 8

// fits makes batches, and reports whether all keep their SLAs: of the sizes that suit clients of each kind, or where
// that leaves a batch too many, of sizes into which those that are kept divide.
func (p *Planner) fits(clients []Client, start, horizon float64) bool {
	if p.urgent(clients, start, horizon, len(p.Latency)) {
		return true
	}
	before := len(p.Latency)
	for k := 1; k <= parts; k++ {
		if n := (len(p.kept) + k - 1) / k; n < before && n > 0 {
			if p.urgent(clients, start, horizon, n) {
				return true
			}
			before = n
		}
	}
	return false
}

// urgent makes batches of the most urgent clients until the horizon, of at most so many, and reports whether all keep
// their SLAs.
func (p *Planner) urgent(clients []Client, start, horizon float64, most int) bool {
	p.requests, p.batches, p.queue = p.requests[:0], p.batches[:0], p.queue[:0]
	p.lag, p.allowed, p.prefers = p.lag[:0], p.allowed[:0], p.prefers[:0]
	p.book = append(p.book[:0], clients...)
	for i := range clients {
		_, n := p.Share(&clients[i])
		p.prefers, p.lag, p.allowed = append(p.prefers, max(1, min(n, most))), append(p.lag, clients[i].lag()), append(p.allowed, p.Allowed(&clients[i]))
	}
	for _, i := range p.kept {
		p.queue = append(p.queue, due{i, p.deadline(&p.book[i], p.lag[i], p.allowed[i], p.prefers[i])})
	}
	slices.SortFunc(p.queue, func(a, b due) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.client, b.client)) })
	kept := true
	for t := start; t < start+horizon && len(p.queue) > 0; {
		n := min(p.prefers[p.queue[0].client], len(p.queue))
		for _, d := range p.queue[:n] { // a frame is sent once
			t = max(t, float64(p.book[d.client].Last+1)+p.lag[d.client])
		}
		first := len(p.requests)
		p.again = p.again[:0]
		for _, d := range p.queue[:n] {
			c, lag := &p.book[d.client], p.lag[d.client]
			frame := int(math.Floor(t - lag + Same))
			p.requests = append(p.requests, Request{Client: d.client, Frame: frame, Arrival: t})
			c.Serve(p.allowed[d.client], frame, frames(t-lag+c.Network+p.Latency[n-1]))
			kept = kept && (c.Credit >= -Same || c.Credit >= clients[d.client].Credit)
			p.again = append(p.again, due{d.client, p.deadline(c, lag, p.allowed[d.client], p.prefers[d.client])})
		}
		p.batches = append(p.batches, Batch{Start: t, Requests: p.requests[first:len(p.requests):len(p.requests)]})
		t += p.Slot(n)
		p.queue = p.queue[:copy(p.queue, p.queue[n:])]
		for _, d := range p.again {
			k, _ := slices.BinarySearchFunc(p.queue, d, func(a, b due) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.client, b.client)) })
			p.queue = slices.Insert(p.queue, k, d)
		}
	}
	return kept
}

// costliest returns the place in kept of the client that takes the largest part of the server.
func (p *Planner) costliest(clients []Client) (place int) {
	most := -1.0
	for k, i := range p.kept {
		if x, _ := p.Share(&clients[i]); x > most {
			place, most = k, x
		}
	}
	return place
}

// byDeadlines is [Planner.Plan] of [Gearshift].
func (p *Planner) byDeadlines(clients []Client, start, horizon float64) {
	full := false
	for !p.fits(clients, start, horizon) {
		k := p.costliest(clients)
		p.kept, full = slices.Delete(p.kept, k, k+1), true
	}
	for i := range clients {
		if full || !clients[i].Waiting || p.settings[i].Interval < 1 {
			continue
		}
		p.kept = append(p.kept, i)
		if full = !p.fits(clients, start, horizon); full {
			p.kept = p.kept[:len(p.kept)-1]
			p.fits(clients, start, horizon)
		}
	}
}
