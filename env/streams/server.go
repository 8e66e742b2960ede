package streams

import (
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/offload"
)

// server is what runs batches: those of a schedule, or of what has arrived.
type server struct {
	running [256]int // the frames of the batch under way
	left    int      // of them, those that have not ended
	batches uint64

	schedule []*planned // in order
	waiting  []int      // frames that have arrived, of clients that send by themselves

	pushed time.Duration // when a request has waited last for so long that its client loses by it
	added  time.Duration // when a client was added last
	due    time.Duration // when it looks at the schedule again
}

// planned is a batch of the schedule.
type planned struct {
	start  float64
	frames []int
	model  int
	takes  float64
}

// forget drops all that is planned.
func (s *server) forget(r *run) {
	for _, p := range s.schedule {
		r.void(p)
	}
	s.schedule, s.waiting = nil, nil
}

// void has the frames of a batch not be sent.
func (r *run) void(p *planned) {
	for _, k := range p.frames {
		r.sent[k].void = true
	}
}

// plan decides who is served, and where clients send by it, makes the schedule that follows the present one (ARISE-9).
func (r *run) plan() {
	if down, _ := r.sim.Down(0); down {
		return
	}
	if r.planned() {
		r.reschedule()
		return
	}
	r.admit()
	r.settings()
}

// candidates is how many of those that wait a plan looks at.
const candidates = 4

// known lists what the server knows of those that it serves, and of some that wait: those that were evicted last
// come last.
func (r *run) listed() (list []offload.Client, ids []int) {
	for _, id := range r.active {
		if r.clients[id].served {
			list, ids = append(list, r.known(r.clients[id])), append(ids, id)
		}
	}
	n := 0
	for _, id := range r.active {
		if c := r.clients[id]; !c.served && n < candidates && (c.since == 0 || r.now-c.since > time.Second) {
			c.last, c.done = c.newest(r.frames()), c.newest(r.frames())
			list, ids = append(list, r.known(c)), append(ids, id)
			n++
		}
	}
	return list, ids
}

// reschedule replaces the schedule from behind what is about to be sent.
func (r *run) reschedule() {
	s, now := &r.server, r.frames()
	lead := 1.5
	for _, id := range r.active {
		lead = max(lead, r.clients[id].network+1.5)
	}
	start, kept := now+lead, 0
	for kept < len(s.schedule) && s.schedule[kept].start < now+lead {
		p := s.schedule[kept]
		start = p.start + (1+r.planner.Grace)*p.takes
		kept++
	}
	for _, p := range s.schedule[kept:] {
		r.void(p)
	}
	s.schedule = s.schedule[:kept]
	for _, id := range r.active { // the newest frame that is sent in any case
		r.clients[id].last, r.clients[id].next = r.clients[id].done, r.clients[id].book
	}
	for _, p := range s.schedule {
		for _, k := range p.frames {
			if f := &r.sent[k]; !f.void {
				c := r.clients[f.client]
				c.last = max(c.last, f.number)
				r.booked(c, &c.next, f.number, p.start, p.takes, p.model)
			}
		}
	}
	list, ids := r.listed()
	batches, admitted := r.planner.Plan(list, start, r.Horizon.Seconds()*r.FPS)
	for i, id := range ids {
		c, in := r.clients[id], slices.Contains(admitted, i)
		if c.served && !in {
			r.res.Evicted++
		}
		r.serve(c, in)
		c.setting = r.planner.Best(&list[i])
	}
	for _, b := range batches {
		p := &planned{start: b.Start, model: b.Model, takes: r.took(b.Model, len(b.Requests))}
		for _, x := range b.Requests {
			r.send(r.clients[ids[x.Client]], x.Frame, p)
		}
		s.schedule = append(s.schedule, p)
	}
	r.dispatch()
}

// send has a client send a frame of the schedule, which it knows a way down from now on.
func (r *run) send(c *client, number int, p *planned) {
	k := len(r.sent)
	r.sent = append(r.sent, frame{client: c.id, number: number, planned: p, at: -1})
	p.frames = append(p.frames, k)
	c.last = max(c.last, number)
	at := max(c.captured(number), r.frames()+c.network/2) + r.uplink(c)
	r.sim.Schedule(env.Item{At: r.moment(at), Kind: frameArrives, Index: k})
}

// capture has a client that sends by itself send the frame that it has now, and notes the next.
func (r *run) capture(id int) {
	c := r.clients[id]
	if !c.served {
		return
	}
	number := c.newest(r.frames())
	k := len(r.sent)
	r.sent = append(r.sent, frame{client: id, number: number, at: -1})
	c.last = number
	r.sim.Schedule(env.Item{At: r.moment(r.frames() + r.uplink(c)), Kind: frameArrives, Index: k})
	r.sim.Schedule(env.Item{At: r.moment(c.captured(number + max(1, c.setting.Interval))), Kind: frameCaptured, Index: id})
}

// arrive follows a frame that has reached the server.
func (r *run) arrive(k int) {
	f := &r.sent[k]
	c := r.clients[f.client]
	if down, _ := r.sim.Down(0); f.void || down {
		return
	}
	f.at = r.frames()
	c.arrivals.Add(f.number, f.at)
	if f.planned == nil {
		r.server.waiting = append(r.server.waiting, k)
	} else if !slices.Contains(r.server.schedule, f.planned) {
		r.res.Missed++ // its batch has begun without it
		if r.Policy != offload.Gearshift {
			return
		}
		r.server.waiting = append(r.server.waiting, k)
	}
	r.dispatch()
}

// dispatch begins the next batch, if the server is free and it is time.
func (r *run) dispatch() {
	if r.server.left > 0 {
		return
	}
	if r.planned() {
		r.follow()
	} else {
		r.react()
	}
}

// follow begins the first batch of the schedule once all of it has arrived, or its grace is over.
func (r *run) follow() {
	s := &r.server
	for len(s.schedule) > 0 {
		p := s.schedule[0]
		there := p.frames[:0:0]
		for _, k := range p.frames {
			if r.sent[k].at >= 0 {
				there = append(there, k)
			}
		}
		patience := p.start + r.planner.Grace*p.takes
		if at := r.moment(patience); len(there) < len(p.frames) && r.now < at {
			if s.due != at {
				s.due = at
				r.sim.Schedule(env.Item{At: at, Kind: batchDue})
			}
			return
		}
		s.schedule = s.schedule[1:]
		for _, k := range p.frames {
			c := r.clients[r.sent[k].client]
			c.done = max(c.done, r.sent[k].number)
		}
		there = append(there, s.waiting...) // what was late for the batches before, of whatever model
		s.waiting = s.waiting[:0]
		if len(there) == 0 {
			continue
		}
		there = there[:min(len(there), len(r.planner.Latency))]
		if r.now >= r.Warmup && r.frames() > p.start+1e-6 {
			r.late++
		}
		r.begin(there, p.model)
		return
	}
}

// took is the time of a batch of a model.
func (r *run) took(model, n int) float64 {
	if model == 0 {
		return r.planner.Latency[n-1]
	}
	return r.planner.Smaller[model-1].Latency[n-1]
}

// react begins a batch of what has arrived, as large as all in it tolerate.
func (r *run) react() {
	s := &r.server
	n, most := 0, len(r.planner.Latency)
	for n < min(len(s.waiting), most) {
		if most = min(most, max(1, r.clients[r.sent[s.waiting[n]].client].setting.Batch)); n >= most {
			break
		}
		n++
	}
	if n == 0 {
		return
	}
	batch := slices.Clone(s.waiting[:n])
	s.waiting = slices.Delete(s.waiting, 0, n)
	for _, k := range batch {
		f := &r.sent[k]
		c := r.clients[f.client]
		x := offload.Client{Network: c.network + r.frames() - f.at}
		if r.planner.EndToEnd(&x, n) > r.planner.EndToEnd(&offload.Client{Network: c.network}, max(1, c.setting.Batch)) {
			s.pushed = r.now
		}
	}
	r.begin(batch, 0)
}

// begin begins a batch of a model.
func (r *run) begin(batch []int, model int) {
	s, takes := &r.server, r.took(model, len(batch))
	if r.now >= r.Warmup {
		r.res.Batches++
		r.sizes.Add(float64(len(batch)))
		r.busyTime += takes / r.FPS
		for _, k := range batch {
			if f := &r.sent[k]; r.clients[f.client].tracked >= 0 {
				r.intervals.Add(float64(f.number - r.clients[f.client].tracked))
			}
		}
	}
	copy(s.running[:], batch)
	s.left = len(batch)
	for _, k := range batch {
		c := r.clients[r.sent[k].client]
		r.sent[k].model = model
		r.booked(c, &c.book, r.sent[k].number, r.frames(), takes, model)
	}
	s.batches++
	r.sim.BeginBatch(model, 0, len(batch), s.batches<<8, r.now)
}

// quiet is how long no request may have waited for another batch until a client is added (ARISE-19).
const quiet = 400 * time.Millisecond

// admit adds and removes clients of a server that reacts.
func (r *run) admit() {
	list, ids := r.listed()
	switch {
	case r.Clients > 0:
		for i := range ids {
			if r.serving < r.Clients && !r.clients[ids[i]].served {
				r.begins(ids[i])
			}
		}
	case r.Verified:
		_, kept := r.planner.Plan(list, r.frames(), r.Horizon.Seconds()*r.FPS)
		for i, id := range ids {
			r.change(id, slices.Contains(kept, i))
		}
	case r.now-r.server.pushed < r.Period && r.serving > 0 && r.server.pushed > 0:
		for i := len(ids) - 1; i >= 0; i-- {
			if r.clients[ids[i]].served {
				r.change(ids[i], false)
				break
			}
		}
	case r.now-max(r.server.pushed, r.server.added) >= quiet:
		for _, id := range ids {
			if !r.clients[id].served {
				r.server.added = r.now
				r.begins(id)
				break
			}
		}
	}
}

func (r *run) change(id int, in bool) {
	if c := r.clients[id]; c.served && !in {
		r.res.Evicted++
		r.serve(c, false)
	} else if !c.served && in {
		r.begins(id)
	}
}

// begins has a client that sends by itself begin to.
func (r *run) begins(id int) {
	c := r.clients[id]
	x := r.known(c)
	if c.setting = r.planner.Best(&x); c.setting.Interval == 0 {
		return
	}
	r.serve(c, true)
	r.sim.Schedule(env.Item{At: r.moment(c.captured(c.newest(r.frames()) + 1)), Kind: frameCaptured, Index: id})
}

// settings gives clients that send by themselves what suits them now.
func (r *run) settings() {
	for _, id := range r.active {
		c := r.clients[id]
		if !c.served {
			continue
		}
		x := r.known(c)
		if s := r.planner.Best(&x); s.Interval > 0 {
			c.setting = s
		} else if r.Clients == 0 {
			r.change(id, false)
		}
	}
}
