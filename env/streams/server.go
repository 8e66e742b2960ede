package streams

import (
	"math"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/offload"
)

// server runs batches: those of a schedule, or of what has arrived.
type server struct {
	running [256]*offload.Frame // of the batch under way
	left    int                 // of them, those that have not ended
	batches uint64
	due     time.Duration // when it looks at the schedule again
}

// plan decides who is served, and where clients send by it, makes the schedule that follows the present one (ARISE-9).
func (r *run) plan() {
	if down, _ := r.sim.Down(0); down {
		return
	}
	if !r.planned() {
		for _, s := range r.schedule.Admit(r.streams(), r.frames(), r.FPS) {
			c := clientOf(s)
			if r.turned(c); c.Served {
				r.sim.Schedule(env.Item{At: r.moment(c.Captured(c.Newest(r.frames()) + 1)), Kind: frameCaptured, Index: c.id})
			} else {
				r.res.Evicted++
			}
		}
		return
	}
	added, changed := r.schedule.Replan(r.streams(), r.frames(), r.FPS)
	for _, c := range changed {
		if r.turned(clientOf(c)); !c.Served {
			r.res.Evicted++
		}
	}
	for _, p := range added {
		for _, f := range p.Frames {
			r.send(f)
		}
	}
	r.dispatch()
}

// streams lists the clients that are there: those that are served in the order in which they came, then those that
// wait, the newest first, which have the most time left.
func (r *run) streams() []*offload.Stream {
	r.listed = r.listed[:0]
	for _, id := range r.active {
		if c := r.clients[id]; c.Served {
			r.listed = append(r.listed, &c.Stream)
		}
	}
	for _, id := range slices.Backward(r.active) {
		if c := r.clients[id]; !c.Served {
			r.listed = append(r.listed, &c.Stream)
		}
	}
	return r.listed
}

// send has a client send a frame of the schedule, which it knows a way down from now on.
func (r *run) send(f *offload.Frame) {
	c := clientOf(f.Stream)
	r.way(f, max(c.Captured(f.Number), r.frames()+c.Network/2)+r.uplink(c))
}

// way puts a frame on its way to the server, where it arrives then.
func (r *run) way(f *offload.Frame, at float64) {
	f.Of = len(r.sent)
	r.sim.Schedule(env.Item{At: r.moment(at), Kind: frameArrives, Index: len(r.sent)})
	r.sent = append(r.sent, f)
}

// capture has a client that sends by itself send the frame that it has now, and notes the next.
func (r *run) capture(id int) {
	c := r.clients[id]
	if !c.Served {
		return
	}
	number := c.Newest(r.frames())
	c.Sent(number)
	r.way(&offload.Frame{Stream: &c.Stream, Number: number, Arrived: -1}, r.frames()+r.uplink(c))
	r.sim.Schedule(env.Item{At: r.moment(c.Captured(number + max(1, c.Setting.Interval))), Kind: frameCaptured, Index: id})
}

// arrive follows a frame that has reached the server.
func (r *run) arrive(k int) {
	f := r.sent[k]
	if down, _ := r.sim.Down(0); f.Void || down {
		return
	}
	if r.schedule.Arrive(f, r.frames()) {
		r.res.Missed++ // its batch has begun without it
	}
	r.dispatch()
}

// dispatch begins the next batch, if the server is free and it is time.
func (r *run) dispatch() {
	s := &r.server
	if s.left > 0 {
		return
	}
	batch, model, late, again := r.schedule.Next(r.frames())
	if len(batch) > 0 {
		if r.now >= r.Warmup && late > 1e-6 {
			r.late++
		}
		r.begin(batch, model)
	} else if at := r.moment(min(again, r.Length.Seconds()*r.FPS)); s.due != at && again < math.Inf(1) {
		s.due = at
		r.sim.Schedule(env.Item{At: at, Kind: batchDue})
	}
}

// begin begins a batch of a model.
func (r *run) begin(batch []*offload.Frame, model int) {
	s := &r.server
	if r.now >= r.Warmup {
		r.res.Batches++
		r.sizes.Add(float64(len(batch)))
		r.busyTime += min(r.schedule.Took(model, len(batch))/r.FPS, (r.Length - r.now).Seconds())
	}
	if left := r.Length - r.now; left <= time.Second {
		r.res.Last = append(r.res.Last, Ran{left, time.Duration(r.schedule.Took(model, len(batch)) / r.FPS * float64(time.Second)), len(batch), model})
	}
	for _, f := range batch {
		c := clientOf(f.Stream)
		if r.now >= r.Warmup && c.before > 0 {
			r.intervals.Add(float64(f.Number - c.before))
		}
		c.before = f.Number
	}
	copy(s.running[:], batch)
	s.left = len(batch)
	s.batches++
	r.sim.BeginBatch(model, 0, len(batch), s.batches<<8, r.now)
}
