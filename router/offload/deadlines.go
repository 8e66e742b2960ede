package offload

import (
	"cmp"
	"math"
	"slices"
)

// Gearshift serves who has to be served next: by when, follows from the strides that a client may still have in its
// present second, so that its intervals are mixed and it uses up what its SLA leaves. Batches are of the size that serves
// the most urgent clients longest for its time. Who costs most goes first.
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
// the frame ready on. It returns what the client has lost beyond its SLA in the second that ended since the result
// before, as a sum over its frames; −Inf if none did.
func (s *Server) Serve(c *Client, frame, ready, model int) (over float64) {
	over = math.Inf(-1)
	if c.Ready <= 0 {
		c.Began = ready
	} else {
		reference, gap := s.Reference(c), s.Gap(c.Model)
		for from := c.Ready; from < ready; {
			end := min(ready, c.Began+s.Longest)
			n := float64(end - from)
			c.Lost += n * (gap + c.Rate*(float64(from-c.Last)+(n-1)/2-reference))
			if from = end; end == c.Began+s.Longest {
				over = max(over, c.Lost-c.SLA*float64(s.Longest))
				c.Began, c.Lost = end, 0
			}
		}
	}
	c.Last, c.Ready, c.Model = frame, ready, model
	return over
}

// lag returns how much later than its number a frame of the client arrives, at the latest.
func (c *Client) lag() float64 { return c.Arrival - float64(c.Last) + c.Late }

// due is a client, by when its next batch has to start, and the model and size of that which cost it least.
type due struct {
	client       int
	at           float64
	model, batch int
	allowed      float64 // see [Server.Allowed]
	share        float64 // see [Server.Share]
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
	d.at = float64(c.Ready) + math.Floor(p.interval(c)+Same) + p.lag[d.client] - c.Late - c.Network - p.model(d.model).Latency[d.batch-1]
}

// stretch bounds an interval, as a multiple of the one with which the client would lose what its SLA allows for ever:
// what is left at the end of a second is not worth a long one, which hurts the next.
const stretch = 1.1

// interval returns in how many frames from Ready on the client needs its next result: as many as it can have again and
// again until its second ends, so that it loses in that just what its SLA allows. What it has lost, at whatever rate and
// by whatever delay, counts until then, and no longer.
func (p *Planner) interval(c *Client) float64 {
	if !(c.Rate > 0) {
		return float64(p.Longest)
	}
	allowed, stride := p.Allowed(c, c.Model), float64(c.Ready-c.Last)
	left := float64(c.Began + p.Longest - c.Ready)
	// What may be lost until then, in strides beyond those of a result in each frame.
	room := (c.SLA*(float64(p.Longest)-left)-c.Lost)/c.Rate + (allowed-stride)*left
	usual := 2*(allowed-stride) + 1
	return max(1, min(repeated(left, room, usual), stretch*usual+1))
}

// repeated returns the interval that is repeated until so many frames have passed, the last one cut off, and has just so
// much room; one that is usual, or all that is left, if no other is needed.
func repeated(left, room, usual float64) float64 {
	if room >= left*(left-1)/2 {
		return max(left, usual)
	}
	// k whole intervals of m, and the rest: (k·m·(m−1) + r·(r−1))/2 = room, where r = left − k·m.
	for k := max(1, math.Floor(left/(2*max(0, room)/left+1))-1); k < left; k++ {
		if x := left*left - (1+1/k)*(left*left-left-2*room); x >= 0 {
			if m := (left + math.Sqrt(x)) / (k + 1); m >= left/(k+1)-Same && m <= left/k+Same {
				return m
			}
		}
	}
	return 1
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
		if p.fresh {
			p.book[i].Ready, p.book[i].Lost = 0, 0
		}
	}
	for _, i := range p.kept {
		share, model, n := p.share(&clients[i], smaller)
		p.queue = append(p.queue, due{client: i, model: model, batch: max(1, min(n, most)), allowed: p.Allowed(&clients[i], model), share: share})
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
			last := c.Last
			frame := int(math.Floor(t - lag + Same))
			p.requests = append(p.requests, Request{Client: d.client, Frame: frame, Arrival: t})
			over := p.Serve(c, frame, frames(t-lag+c.Late+c.Network+took), model)
			kept = p.keep(c, &clients[d.client], last, over) && kept
			p.deadline(&d)
			k, _ := slices.BinarySearchFunc(p.queue, d, due.compare)
			p.queue = slices.Insert(p.queue, k, d)
		}
		p.batches = append(p.batches, Batch{Start: t, Requests: p.requests[first:len(p.requests):len(p.requests)], Model: model})
		t += (1 + p.Grace) * took
	}
	for k := range p.queue { // whose second has not ended
		d := &p.queue[k]
		kept = kept && (d.at >= start+horizon-overdue || p.from(d) > start+horizon)
	}
	return kept
}

// keep reports whether a client keeps its SLA, of which a second has ended with so much over, if any, and which was so as
// the plan began. With its first batch, before which its frame was the last, it may be forgiven.
func (p *Planner) keep(c, was *Client, last int, over float64) bool {
	if !p.forgives || p.fresh {
		return over <= max(Same, was.over())
	}
	if debt := c.over(); last == was.Last && max(debt, over) > stall*c.SLA*float64(p.Longest) {
		c.Lost -= max(0, debt)
		return true
	}
	return over <= max(c.SLA, was.over()) // a frame's, of all in the second
}

// over returns what the client has lost in its present second beyond what its SLA allows until Ready.
func (c *Client) over() float64 { return c.Lost - c.SLA*float64(c.Ready-c.Began) }

// overdue is by how much a client may be past its deadline as a plan ends, in frames.
const overdue = 2

// from returns when the first frame that the client has not sent yet is there.
func (p *Planner) from(d *due) float64 { return float64(p.book[d.client].Last+1) + p.lag[d.client] }

// late bounds how long a batch waits for a client that has no frame for it yet, in frames, where others have.
const late = 2

// take moves the next batch out of the queue: of the most urgent clients that the same model suits as the first, those
// whom it serves best. Those who would hold the others up, since what they send comes later than before, are left for
// the next.
func (p *Planner) take(t float64) {
	first := max(0, slices.IndexFunc(p.queue, func(d due) bool { return p.from(&d) <= t+late }))
	head := p.queue[first]
	t = max(t, p.from(&head))
	p.choices = p.choices[:0]
	for k := first; k < len(p.queue) && len(p.choices) < head.batch; k++ {
		if d := &p.queue[k]; d.model == head.model && p.from(d) <= t+Same {
			p.choices = append(p.choices, choice{place: k})
		}
	}
	n := p.size(t, &head)
	p.best(t, p.model(head.model).Latency[n-1], n)
	slices.SortFunc(p.choices[:n], func(a, b choice) int { return cmp.Compare(a.place, b.place) })
	p.batch = p.batch[:0]
	rest, next := p.queue[:0], 0
	for k, d := range p.queue {
		if next < n && p.choices[next].place == k {
			p.batch, next = append(p.batch, d), next+1
		} else {
			rest = append(rest, d)
		}
	}
	p.queue = rest
}

// choice is a client that may be in the next batch.
type choice struct {
	place int     // in the queue
	waits bool    // whether its deadline is after the next batch begins
	worth float64 // see [Planner.worth]
}

// sizes bounds how many sizes of a batch are compared.
const sizes = 4

// size returns how many of the choices a batch has that serves its clients longest for its time: down to half of them,
// but all who cannot wait.
func (p *Planner) size(t float64, head *due) (size int) {
	latency, most := p.model(head.model).Latency, math.Inf(-1)
	for n := len(p.choices); n > 0 && 2*n > head.batch || n == len(p.choices); n -= max(1, head.batch/(2*sizes)) {
		x := p.best(t, latency[n-1], n) / latency[n-1]
		if n < len(p.choices) && !p.choices[n].waits {
			break
		}
		if x > most {
			size, most = n, x
		}
	}
	return size
}

// best puts first those n of the choices whom a batch at t that takes so long serves longest, and before them those who
// cannot wait for the next. It returns their worth.
func (p *Planner) best(t, took float64, n int) (worth float64) {
	for i := range p.choices {
		x := &p.choices[i]
		d := &p.queue[x.place]
		x.waits, x.worth = d.at >= t+(1+p.Grace)*took, p.worth(d, t, took)
	}
	slices.SortFunc(p.choices, func(a, b choice) int {
		switch {
		case a.waits && b.waits:
			return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.place, b.place))
		case a.waits:
			return 1
		case b.waits:
			return -1
		}
		return cmp.Compare(a.place, b.place)
	})
	for _, x := range p.choices[:n] {
		worth += x.worth
	}
	return worth
}

// worth returns the time of the server that a place in a batch at t, which takes so long, saves its client: how long
// that needs no other, times its share. A frame that is new as the batch begins serves the client longer, by up to two
// frames; and what comes early is partly lost.
func (p *Planner) worth(d *due, t, took float64) float64 {
	c, at := &p.book[d.client], t-p.lag[d.client]
	stride := frames(at - math.Floor(at+Same) + c.Late + c.Network + took)
	long := max(0.5, 2*(d.allowed-float64(stride))+1)
	early := min(max(0, d.at-t), long)
	return (long - early*early/long) * d.share
}

// stall is the part of what may be lost in a second that a client loses at once if its server stands still, and not where
// there is too little room.
const stall = 0.1

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
