package streams

import (
	"slices"

	"gearshift/env"
	"gearshift/router/offload"
)

// plan decides who is served, and where clients send by it, makes the schedules that follow the present ones (ARISE-9).
func (r *run) plan() {
	if r.planned() {
		r.fleet.Assign(r.frames())
		for _, h := range r.servers {
			r.dispatch(h)
		}
		return
	}
	for _, s := range r.fleet.Streams {
		s.Host = r.servers[0].plan
	}
	if !r.servers[0].plan.Up[0] {
		return
	}
	for _, s := range r.schedule.Admit(r.streams(), r.frames(), r.FPS) {
		c := clientOf(s)
		if r.turned(c); c.Served {
			r.sim.Schedule(env.Item{At: r.moment(c.Captured(c.Newest(r.frames()) + 1)), Kind: frameCaptured, Index: c.id})
		} else {
			r.res.Evicted++
		}
	}
}

// streams lists the clients that are there: those that are served in the order in which they came, then those that
// wait, the newest first, which have the most time left.
func (r *run) streams() []*offload.Stream {
	var list []*offload.Stream
	for _, c := range r.fleet.Streams {
		if c.Served {
			list = append(list, c)
		}
	}
	for _, c := range slices.Backward(r.fleet.Streams) {
		if !c.Served {
			list = append(list, c)
		}
	}
	return list
}

// way puts a frame on its way to the host that serves its client, where it arrives then.
func (r *run) way(f *offload.Frame, at float64) {
	f.Of = len(r.sent)
	r.sim.Schedule(env.Item{At: r.moment(at), Kind: frameArrives, Index: len(r.sent)})
	to := r.servers[0]
	if f.Stream.Host != nil {
		to = f.Stream.Host.Of.(*server)
	}
	r.sent = append(r.sent, flight{f, to})
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
func (r *run) arrive(f flight) {
	if f.Void || !f.to.plan.Up[0] {
		return
	}
	if f.to.plan.Arrive(f.Frame, r.frames()) {
		r.res.Missed++ // its batch has begun without it
	}
	r.dispatch(f.to)
}
