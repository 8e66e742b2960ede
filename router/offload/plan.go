package offload

import (
	"math"
	"slices"
)

// Policy names a way in which requests become batches.
type Policy string

// The policies.
const (
	// Arise packs requests into the largest batches that all in them tolerate, one after another, and has clients
	// send so that they arrive as theirs begins (ARISE-7).
	Arise Policy = "arise"
	// Alpha has clients send by their intervals, and runs what has arrived whenever the server is free (ARISE-18).
	Alpha Policy = "arise-alpha"
)

// Policies are all of them; the first is the default.
var Policies = []Policy{Arise, Alpha, Gearshift}

// Request is a frame that a client is to send.
type Request struct {
	Client int // index of the client
	Frame  int
	// Arrival is when it is to arrive.
	Arrival float64
}

// Batch holds requests that the server runs together.
type Batch struct {
	Start    float64
	Requests []Request // of the plan
	Model    int       // 0 is the server's first
}

// Planner makes plans for one server. Its methods return memory of its own, which the next call overwrites.
type Planner struct {
	Server
	Policy Policy

	settings []Setting
	kept     []int // clients, in the order in which they were admitted
	requests []Request
	batches  []Batch

	// Scratch, by client where nothing else is said.
	progress []progress
	last     []int     // the frame that it has sent last
	lag      []float64 // how much later than its number a frame arrives
	seen     []int     // the batch that it was in last
	sorted   []Request // of the sort
	counts   []int32   // of the sort, by digit

	// Of [Gearshift].
	book    []Client // as the plan leaves them
	queue   []due
	batch   []due
	choices []choice
	spare   float64 // part of a batch's time that it may take longer
	// lenient has nobody go for what is lost already, nor for a little. For that forgives has what clients have lost up to
	// their first batch count as nothing.
	lenient, forgives bool
	// stalled says that the server stood still of late, or has got the clients of another: nobody goes who would keep its SLA
	// from now on, and fresh takes all clients to have lost nothing yet.
	stalled, fresh bool
}

// spare is what has to be left where somebody is added by deadlines: rates and times vary, and who was added to a server
// that is full to the brim would soon cost another his place.
const spare = 0.05

// progress follows a client's results as a plan is gone through.
type progress struct {
	results int     // of the plan that have come
	frame   int     // of which the result is tracked
	from    int     // the first frame not counted yet
	sum     float64 // of strides
	n       int     // frames that were counted
}

// Settings returns the setting of each client; the Interval is 0 where no setting keeps its SLA.
func (p *Planner) Settings(clients []Client) []Setting {
	p.settings = p.settings[:0]
	for i := range clients {
		p.settings = append(p.settings, p.Best(&clients[i]))
	}
	return p.settings
}

// Plan returns the batches from the time start on, at which the running one ends, over the horizon, and the clients
// that are served, by index. Clients are dropped one by one, the last first, or by deadlines the costliest, until all that
// are left keep their SLAs; if all do, those that wait are added one by one while that holds (ARISE-8).
func (p *Planner) Plan(clients []Client, start, horizon float64) (batches []Batch, kept []int) {
	p.Settings(clients)
	p.kept = p.kept[:0]
	for i := range clients {
		if !clients[i].Waiting && p.settings[i].Interval > 0 {
			p.kept = append(p.kept, i)
		}
	}
	full, evicted := false, false
	for p.spare, p.forgives = 0, false; !p.fits(clients, start, horizon); {
		// What a stall has cost all at once needs no room for good: nobody goes for that, but nobody comes either.
		if full = true; p.lenient && p.Policy == Gearshift && !p.forgives {
			p.forgives = true
			continue
		}
		// Nor for what no room would mend, beyond one at a time.
		if p.lenient && p.Policy == Gearshift && (p.stalled || evicted) && p.fitsFresh(clients, start, horizon) {
			break
		}
		last := len(p.kept) - 1
		if p.Policy == Gearshift {
			last = p.costliest(clients)
		}
		p.kept, evicted = slices.Delete(p.kept, last, last+1), true
	}
	tried := false
	for i := range clients {
		if full || !clients[i].Waiting || p.settings[i].Interval < 1 {
			continue
		}
		p.kept, p.spare, tried = append(p.kept, i), spare, true
		if full = !p.fits(clients, start, horizon); full {
			p.kept = p.kept[:len(p.kept)-1]
		}
	}
	if p.spare = 0; tried && (full || p.Policy == Gearshift) {
		p.fits(clients, start, horizon)
	}
	slices.Sort(p.kept)
	return p.batches, p.kept
}

// fitsFresh makes batches for the clients that are kept, and reports whether all would keep their SLAs if they had lost
// nothing yet: what is left of a second may be too little for one of them, however few the others are.
func (p *Planner) fitsFresh(clients []Client, start, horizon float64) bool {
	p.fresh = true
	fits := p.fits(clients, start, horizon)
	p.fresh = false
	p.urgent(clients, start, horizon, len(p.Latency), len(p.Smaller))
	return fits
}

// fits makes batches for the clients that are kept, and reports whether all keep their SLAs.
func (p *Planner) fits(clients []Client, start, horizon float64) bool {
	if p.Policy == Gearshift {
		return p.byDeadlines(clients, start, horizon)
	}
	p.predict(clients, start, horizon)
	p.batches = p.batches[:0]
	if p.Policy == Alpha {
		p.react(start)
	} else {
		p.adjust(clients, start)
	}
	return p.keeps(clients)
}

// Predicted returns the requests that clients would send by their intervals, in the order of their arrivals: those of
// the last plan (ARISE-6).
func (p *Planner) Predicted(clients []Client, start, horizon float64) []Request {
	p.Settings(clients)
	p.kept = p.kept[:0]
	for i := range clients {
		p.kept = append(p.kept, i)
	}
	p.predict(clients, start, horizon)
	return p.requests
}

// predict lists the requests that clients send by their intervals until the horizon, in the order of their arrivals.
func (p *Planner) predict(clients []Client, start, horizon float64) {
	p.requests = p.requests[:0]
	end := start + horizon
	for _, i := range p.kept {
		c, interval := &clients[i], p.settings[i].Interval
		if interval < 1 {
			continue
		}
		for frame, at := c.Last+interval, c.Arrival+float64(interval); at <= end+Same; frame, at = frame+interval, at+float64(interval) {
			p.requests = append(p.requests, Request{Client: i, Frame: frame, Arrival: at})
		}
	}
	p.sort(start, horizon)
}

// bits are those of a digit by which requests are sorted, and digits how many there are: arrivals that differ by less
// than the horizon divided by 2^(bits·digits) are in the order of their clients.
const bits, digits = 11, 2

// sort orders the requests by their arrivals, in linear time. What is overdue comes first.
func (p *Planner) sort(start, horizon float64) {
	p.sorted = slices.Grow(p.sorted[:0], len(p.requests))[:len(p.requests)]
	p.counts = slices.Grow(p.counts[:0], 1<<bits)[:1<<bits]
	scale := float64(1<<(bits*digits)-1) / (2 * max(horizon, 1))
	key := func(r *Request) int { // overdue requests have the lower half
		return int(min(max(0, scale*(r.Arrival-start+max(horizon, 1))+0.5), 1<<(bits*digits)-1))
	}
	for d := range digits {
		clear(p.counts)
		digit := func(r *Request) int { return key(r) >> (bits * d) & (1<<bits - 1) }
		for i := range p.requests {
			p.counts[digit(&p.requests[i])]++
		}
		sum := int32(0)
		for i, n := range p.counts {
			p.counts[i], sum = sum, sum+n
		}
		for i := range p.requests {
			k := &p.counts[digit(&p.requests[i])]
			p.sorted[*k] = p.requests[i]
			*k++
		}
		p.requests, p.sorted = p.sorted, p.requests
	}
}

// tolerated returns the largest n of which the first n of the requests all tolerate a batch, of those that have
// arrived at the time and are of different clients.
func (p *Planner) tolerated(list []Request, until float64, batch int) (n int) {
	most := len(p.Latency)
	for n < min(len(list), most) && list[n].Arrival <= until+Same {
		c := list[n].Client
		if most = min(most, p.settings[c].Batch); n >= most || p.seen[c] == batch {
			break
		}
		p.seen[c] = batch
		n++
	}
	return max(1, n)
}

// adjust makes batches without gaps, and has each request be of the frame that arrives as its batch begins
// (Algorithm 1).
func (p *Planner) adjust(clients []Client, start float64) {
	p.last, p.lag = p.last[:0], p.lag[:0]
	for i := range clients {
		c := &clients[i]
		p.last, p.lag = append(p.last, c.Last), append(p.lag, c.Arrival-float64(c.Last))
	}
	p.unseen()
	t := start
	for rest := p.requests; len(rest) > 0; {
		n := p.tolerated(rest, math.Inf(1), len(p.batches))
		batch := rest[:n:n]
		for k := range batch { // a frame is sent once
			c := batch[k].Client
			t = max(t, float64(p.last[c]+1)+p.lag[c])
		}
		for k := range batch {
			r := &batch[k]
			r.Arrival, r.Frame = t, int(math.Floor(t-p.lag[r.Client]+Same))
			p.last[r.Client] = r.Frame
		}
		p.batches = append(p.batches, Batch{Start: t, Requests: batch})
		t += p.Slot(n)
		rest = rest[n:]
	}
}

// unseen notes that no client has been in a batch.
func (p *Planner) unseen() {
	p.seen = p.seen[:0]
	for range p.settings {
		p.seen = append(p.seen, -1)
	}
}

// react has the server, whenever it is free, run as many of the requests that have arrived as all of them tolerate.
func (p *Planner) react(start float64) {
	p.unseen()
	t := start
	for rest := p.requests; len(rest) > 0; {
		t = max(t, rest[0].Arrival)
		n := p.tolerated(rest, t, len(p.batches))
		p.batches = append(p.batches, Batch{Start: t, Requests: rest[:n:n]})
		t += p.Latency[n-1]
		rest = rest[n:]
	}
}

// keeps reports whether every client that is kept keeps its SLA in the mean over the frames from the plan's first
// result to its last. The way to the first depends on what was planned before, and counts where it is the only one.
func (p *Planner) keeps(clients []Client) bool {
	p.progress = slices.Grow(p.progress[:0], len(clients))[:len(clients)]
	for _, i := range p.kept {
		c := &clients[i]
		p.progress[i] = progress{frame: c.Last, from: c.Last + p.EndToEnd(c, p.settings[i].Batch)}
	}
	for k := range p.batches {
		b := &p.batches[k]
		for _, r := range b.Requests {
			c := &clients[r.Client]
			waits := b.Start - (c.Arrival + float64(r.Frame-c.Last))
			p.progress[r.Client].result(r.Frame, r.Frame+frames(c.Network+max(0, waits)+p.Latency[len(b.Requests)-1]))
		}
	}
	for _, i := range p.kept {
		if x := &p.progress[i]; x.n > 0 && p.Drop(&clients[i], x.sum/float64(x.n)) > clients[i].SLA+Same {
			return false
		}
	}
	return true
}

// result counts the strides of the frames before the one from which on the result of another is tracked.
func (x *progress) result(of, ready int) {
	if x.results == 1 {
		x.sum, x.n = 0, 0
	}
	if n := ready - x.from; n > 0 {
		x.sum += float64(n) * (float64(x.from-x.frame) + float64(n-1)/2)
		x.n += n
	}
	x.results, x.frame, x.from = x.results+1, of, ready
}
