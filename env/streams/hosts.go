package streams

import (
	"fmt"
	"math"
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/router/offload"
)

// HostSizes is a host that answers frames.
type HostSizes struct {
	Name  string
	Sizes []HostSize // the first is that to which SLAs relate
}

// HostSize is a model size on a host.
type HostSize struct {
	// Replica is that of the fleet's table, and Kind that of its input as its profile numbers them.
	Replica, Kind int
	Latency       []float64 // of a batch by its size, in ms
	Gap           float64   // the accuracy that its results lose beside the first
}

// Beside has clients come to a fleet that they share with requests which are routed: frames are batches on its replicas
// beside theirs, and hosts fail for both. The seed is that of the episode.
func (c Config) Beside(b *env.Beside) (env.Scheduled, error) {
	c.Seed = b.Seed
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("cannot simulate streams: %w", err)
	}
	r := c.start(b.Simulator)
	r.beside = b
	return r, nil
}

// server is a host with its schedule, and the batch under way.
type server struct {
	HostSizes
	index    int
	plan     *offload.ScheduledHost
	declared offload.Server // without what batches really take
	failed   []float64      // until when each size counts as failed

	running [256]*offload.Frame // of the batch under way
	left    int                 // of them, those that have not ended
	size    int
	model   int
	began   float64
	broken  bool
	lease   fleet.Lease
	batches uint64
	due     time.Duration // when it looks at the schedule again
}

// newServer makes that of a host.
func (r *run) newServer(index int) *server {
	h := r.Hosts[index]
	x := &server{HostSizes: h, index: index, failed: make([]float64, len(h.Sizes))}
	s := offload.Schedule{Margin: r.Margin, Weight: r.Weight, Horizon: r.Horizon.Seconds() * r.FPS, Fixed: r.Fixed}
	s.Policy, s.Longest = r.Policy, int(r.FPS)
	s.Verified, s.Places, s.Removed, s.Quiet = r.Verified, r.Clients, r.Removed, quiet.Seconds()*r.FPS
	if r.planned() {
		s.Grace = r.Grace
	}
	var latency [][]float64
	var gaps []float64
	for i, size := range h.Sizes {
		if latency = append(latency, offload.InFrames(size.Latency, r.FPS)); i > 0 {
			gaps = append(gaps, size.Gap)
		}
	}
	x.plan = offload.NewScheduledHost(h.Name, s, latency, gaps...)
	x.plan.Of, x.declared = x, offload.Server{Latency: latency[0]}
	return x
}

// planOf returns the schedule of the host that serves a stream.
func (r *run) planOf(s *offload.Stream) *offload.Schedule {
	if s.Host != nil {
		return &s.Host.Schedule
	}
	return r.schedule
}

// failure is how long a host counts as failed that has lost a batch.
const failure = time.Second

// look notes which models of hosts answer, and has the clients of those that do not be served elsewhere.
func (r *run) look() {
	turned := false
	for _, h := range r.servers {
		for i := range h.Sizes {
			up := r.up(h, i)
			if h.plan.Up[i] == up {
				continue
			}
			turned = true
			for _, s := range r.fleet.Streams {
				if i == 0 && !up && s.Served && s.Host == h.plan {
					clientOf(s).lost = r.now
				}
			}
			r.fleet.Turn(h.plan, i, up, r.frames())
		}
	}
	if turned && r.planned() {
		r.plan()
	}
}

// up reports whether a model of a host answers, as far as is known.
func (r *run) up(h *server, model int) bool {
	if r.beside != nil {
		return r.beside.Ledger.State(h.Sizes[model].Replica) == fleet.Up && r.frames() >= h.failed[model]
	}
	down, _ := r.sim.Down(h.index)
	return !down
}

// Turned implements [env.Follower].
func (r *run) Turned(int) {
	r.now = r.sim.Now()
	r.look()
}

// begin begins a batch of a model.
func (r *run) begin(h *server, batch []*offload.Frame, model int) {
	if r.now >= r.Warmup {
		r.res.Batches++
		r.sizes.Add(float64(len(batch)))
		r.busyTime += r.within(h.plan.Took(model, len(batch)) / r.FPS)
	}
	if left := r.Length - r.now; r.beside == nil && left <= time.Second {
		r.res.Last = append(r.res.Last, Ran{left, time.Duration(h.plan.Took(model, len(batch)) / r.FPS * float64(time.Second)), len(batch), model})
	}
	for _, f := range batch {
		c := clientOf(f.Stream)
		if r.now >= r.Warmup && c.before > 0 {
			r.intervals.Add(float64(f.Number - c.before))
		}
		c.before = f.Number
	}
	copy(h.running[:], batch)
	h.left, h.size, h.model, h.began, h.broken = len(batch), len(batch), model, r.frames(), false
	h.plan.Running = true
	h.batches++
	replica, id := h.Sizes[model].Replica, uint64(h.index)<<48|h.batches<<8&(1<<48-1)
	if r.beside != nil {
		h.plan.Until = h.began + h.plan.Took(model, len(batch))
		h.lease, id = r.beside.Lease(replica, r.Task, r.now), id|env.OfBeside
	}
	r.sim.BeginBatch(replica, h.Sizes[model].Kind, len(batch), id, r.now)
}

// within cuts the seconds off that a batch runs beyond the end.
func (r *run) within(seconds float64) float64 {
	if r.beside != nil {
		return seconds
	}
	return min(seconds, (r.Length - r.now).Seconds())
}

// Ended implements [env.Follower].
func (r *run) Ended(id uint64, at time.Duration) error {
	r.now = at
	h := r.serverOf(id)
	f := h.running[id&0xff]
	c := clientOf(f.Stream)
	down := r.downlink(c)
	c.Network += (r.frames() + down - c.Captured(f.Number) - (r.frames() - f.Arrived) - c.Network) / 16
	r.sim.Schedule(env.Item{At: r.moment(r.frames() + down), Kind: resultHeard, Index: f.Of.(int)})
	r.ended(h)
	return nil
}

// Broken implements [env.Follower]: the request is lost with the host.
func (r *run) Broken(id uint64, at time.Duration) {
	r.now = at
	h := r.serverOf(id)
	h.broken = true
	r.ended(h)
}

// serverOf returns the host of a request.
func (r *run) serverOf(id uint64) *server { return r.servers[id&^env.OfBeside>>48] }

// ended follows the end of a request of a batch.
func (r *run) ended(h *server) {
	if h.left--; h.left > 0 {
		return
	}
	h.plan.Running = false
	switch {
	case r.beside == nil:
	case h.broken:
		h.lease.End()
		h.failed[h.model] = r.frames() + failure.Seconds()*r.FPS
		r.beside.Broke(h.Sizes[h.model].Replica, r.moment(h.began), r.now)
		r.look()
	default:
		h.lease.End()
		h.plan.Ran(h.model, h.size, r.frames()-h.began)
	}
	r.dispatch(h)
}

// Measure implements [env.Follower].
func (r *run) Measure(time.Duration) {}

// Placed implements [offload.Driver].
func (r *run) Placed(s *offload.Stream) {
	if r.turned(clientOf(s)); !s.Served {
		r.res.Evicted++
	}
}

// Ask implements [offload.Driver]. The client knows of the frame a way down from now on.
func (r *run) Ask(f *offload.Frame) {
	c := clientOf(f.Stream)
	r.way(f, max(c.Captured(f.Number), r.frames()+c.Network/2)+r.uplink(c))
}

// Waits, Forget and Planned implement [offload.Driver]: clients ask for no reasons.
func (r *run) Waits(*offload.Stream, string) {}
func (r *run) Forget(*offload.Stream)        {}
func (r *run) Planned(*offload.Stream)       {}

// dispatch plans a host if that is due, and begins its next batch, if it is free and it is time. Where clients send by
// themselves nothing is planned.
func (r *run) dispatch(h *server) {
	var batch []*offload.Frame
	model, late, again := 0, 0.0, math.Inf(1)
	if r.planned() {
		batch, model, late, again = r.fleet.Advance(h.plan, r.frames())
	} else if h.left == 0 {
		batch, _, _, _ = h.plan.Next(r.frames())
	}
	if len(batch) > 0 {
		if r.now >= r.Warmup && (late > 1 || late > 1e-6 && r.beside == nil) {
			r.late++
		}
		r.begin(h, batch, model)
	} else if at := r.moment(min(again, math.MaxInt32)); at < r.next && h.due != at {
		h.due = at
		r.sim.Schedule(env.Item{At: at, Kind: batchDue, Index: h.index})
	}
}
