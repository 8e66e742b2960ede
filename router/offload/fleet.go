package offload

import (
	"cmp"
	"math"
	"slices"
)

// ScheduledHost is one of a [Fleet], with its schedule.
type ScheduledHost struct {
	Schedule
	Name string
	// Of is the driver's.
	Of any

	// Running says that a batch is under way. The driver sets it.
	Running bool
	// Up says which of the models answer, see [Fleet.Turn]. Without the first the host serves nobody.
	Up []bool

	profile [][]float64 // the time of a batch by model and size, as declared
	slow    []float64   // how many times as long as declared batches take, by model
	full    float64     // until when nobody more is served, since there was no room for all
	next    float64     // when it is planned again
}

// InFrames returns times in ms in frame intervals.
func InFrames(ms []float64, fps float64) (frames []float64) {
	for _, t := range ms {
		frames = append(frames, t*fps/1000)
	}
	return frames
}

// NewScheduledHost makes a host of its times of batches by model and size. Those of a size that one of the models has not are left
// out. The schedule has all else that it needs; the gaps of the models after the first are those.
func NewScheduledHost(name string, s Schedule, latency [][]float64, gaps ...float64) *ScheduledHost {
	h := &ScheduledHost{Name: name, Schedule: s, profile: latency, slow: make([]float64, len(latency))}
	most := len(latency[0])
	for i, l := range latency {
		h.slow[i], most, h.Up = 1, min(most, len(l)), append(h.Up, true)
	}
	for i := range latency {
		h.profile[i] = latency[i][:most]
	}
	h.Smaller = nil
	for _, gap := range gaps {
		h.Smaller = append(h.Smaller, Size{Gap: gap})
	}
	h.calibrate()
	return h
}

// calibrate has plans count with the times that batches really take, and with the smaller models that answer.
func (h *ScheduledHost) calibrate() {
	for i, declared := range h.profile {
		if i > 0 && !h.Up[i] {
			h.Smaller[i-1].Latency = nil
			continue
		}
		list := make([]float64, len(declared))
		for n, t := range declared {
			list[n] = t * h.slow[i]
		}
		if i == 0 {
			h.Latency = list
		} else {
			h.Smaller[i-1].Latency = list
		}
	}
}

// The bounds of how slow a host is taken for, and how much one batch says of it: more if it took longer than expected,
// since a batch that does delays those after it, but no single one takes room from many clients.
const (
	slowest, fastest         = 4, 0.5
	slowerWeight, fastWeight = 1.0 / 32, 1.0 / 64
	outlier                  = 1.3 // times as long as expected
)

// Ran takes in how long a batch of n has really taken.
func (h *ScheduledHost) Ran(model, n int, took float64) {
	off := min(max(took/h.profile[model][n-1], fastest), slowest, outlier*h.slow[model]) - h.slow[model]
	if off > 0 {
		h.slow[model] += slowerWeight * off
	} else {
		h.slow[model] += fastWeight * off
	}
}

// Fleet is hosts that serve streams, each by a schedule of its own. It decides which host serves a stream: one that waits is
// planned on the host with the most room, and those of a host that has failed wait on another at once.
//
// The simulator and a router drive it alike. They set all fields before they first call it, change Streams by Add and
// Remove, and begin the batches that Advance returns.
type Fleet struct {
	Hosts   []*ScheduledHost
	Streams []*Stream // in the order in which they came
	Driver  Driver
	// Period sets how often hosts are planned, and Rest how long a stream that was evicted waits at least.
	Period, Rest float64
	// Newest has a plan look at the newest [AtOnce] of the streams that wait, in place of all, those that were tried
	// first last.
	Newest bool

	considered float64 // when streams were given hosts last; 0: they are to be given some now
}

// Driver carries out what a [Fleet] decides. It must not call the fleet.
type Driver interface {
	// Placed follows that a stream is served from now on by its host, or no longer.
	Placed(s *Stream)
	// Waits follows why a stream is not served; it may know that already.
	Waits(s *Stream, why string)
	// Forget drops what the stream was asked for.
	Forget(s *Stream)
	// Ask has the stream send a frame.
	Ask(f *Frame)
	// Planned follows that all is asked for of a stream that is served.
	Planned(s *Stream)
}

// Add adds a stream, which waits.
func (f *Fleet) Add(s *Stream) {
	f.Streams = append(f.Streams, s)
	f.Hurry()
}

// Remove forgets a stream that has gone.
func (f *Fleet) Remove(s *Stream, now float64) {
	f.Streams = slices.DeleteFunc(f.Streams, func(o *Stream) bool { return o == s })
	s.Serve(false, now)
	f.forget(s)
}

// Hurry has streams that wait be given a host at the next [Fleet.Assign], whenever they were last.
func (f *Fleet) Hurry() { f.considered = 0 }

// Assign gives streams that wait the host with the most room.
func (f *Fleet) Assign(now float64) {
	if f.considered > 0 && now < f.considered+f.Period-Same {
		return
	}
	f.considered = now
	var best *ScheduledHost
	most := math.Inf(-1)
	for _, h := range f.Hosts {
		if !h.Up[0] {
			continue
		}
		if room := f.Room(h); room > most {
			best, most = h, room
		}
	}
	for _, s := range f.Streams {
		switch {
		case s.Served || s.Silent:
		case best == nil:
			f.forget(s)
			f.Driver.Waits(s, "no host that answers frames is up")
		case s.Host != best:
			f.forget(s)
			s.Host, best.next = best, min(best.next, now)
		}
	}
}

// Room returns the part of a host that is free.
func (f *Fleet) Room(h *ScheduledHost) float64 {
	room := 1.0
	for _, s := range f.Streams {
		if s.Host == h && s.Served {
			known := h.Known(s)
			share, _, _ := h.Share(&known)
			room -= min(share, 1)
		}
	}
	return room
}

// Turn notes that a model of a host has failed, or is back. Without a smaller one the host is planned again. Without the
// first, to which SLAs relate, its streams are to be served elsewhere, at once.
func (f *Fleet) Turn(h *ScheduledHost, model int, up bool, now float64) {
	if h.Up[model] == up {
		return
	}
	h.Up[model], h.next = up, min(h.next, now)
	h.Schedule.Forget()
	if model > 0 {
		return
	}
	f.Hurry()
	if up {
		return
	}
	for _, s := range f.Streams {
		if s.Host != h {
			continue
		}
		if s.Served {
			f.Evict(s, now, "host "+h.Name+" takes no frames any more")
			s.Since = 0 // it need not rest
		}
		f.forget(s)
	}
	for _, o := range f.Hosts {
		o.next, o.full, o.stood = min(o.next, now), 0, now
	}
}

// Evict ends to serve a stream.
func (f *Fleet) Evict(s *Stream, now float64, why string) {
	s.Serve(false, now)
	f.Driver.Placed(s)
	f.drop(s)
	f.Driver.Waits(s, why)
}

// forget takes a stream off its host.
func (f *Fleet) forget(s *Stream) {
	f.drop(s)
	s.Host = nil
}

// drop drops what a stream was asked for.
func (f *Fleet) drop(s *Stream) {
	if s.Host != nil {
		s.Host.Drop(s)
	}
	f.Driver.Forget(s)
}

// Advance plans a host if that is due. It returns the batch that begins there now, with its model and how much later than
// planned it begins, and when to look again.
func (f *Fleet) Advance(h *ScheduledHost, now float64) (frames []*Frame, model int, late, again float64) {
	if !h.Up[0] {
		return nil, 0, 0, math.Inf(1)
	}
	if now >= h.next-Same {
		if h.Running && h.Until > 0 {
			h.Until = max(h.Until, now)
		}
		f.plan(h, now)
		h.next = now + f.Period
	}
	if h.Running {
		return nil, 0, 0, h.next
	}
	frames, model, late, again = h.Next(now)
	return frames, model, late, min(again, h.next)
}

// plan plans a host, until nobody more can be served.
func (f *Fleet) plan(h *ScheduledHost, now float64) {
	h.calibrate()
	var served, waiting []*Stream
	for _, s := range f.Streams {
		switch {
		case s.Host != h || s.Silent:
		case s.Served:
			served = append(served, s)
		default:
			waiting = append(waiting, s)
		}
	}
	if f.Newest {
		slices.Reverse(waiting)
		f.admit(h, append(served, waiting...), now)
		return
	}
	if now < h.full {
		waiting = nil
	}
	slices.SortStableFunc(waiting, func(a, b *Stream) int { return cmp.Compare(a.tried, b.tried) })
	for more := true; more; {
		n := min(len(waiting), AtOnce)
		tried := waiting[:n]
		waiting = waiting[n:]
		more = f.admit(h, append(served, tried...), now) && len(waiting) > 0
		for _, s := range tried {
			if s.Served {
				served = append(served, s)
			} else {
				s.tried = now
				f.Driver.Waits(s, "no host has room for it")
			}
		}
	}
	for _, s := range served {
		f.Driver.Planned(s)
	}
}

// admit plans a host again for these streams, and reports whether any of them is served that was not.
func (f *Fleet) admit(h *ScheduledHost, streams []*Stream, now float64) (more bool) {
	added, changed := h.Replan(streams, now, f.Rest)
	for _, s := range changed {
		f.Driver.Placed(s)
		if s.Served {
			more = true
		} else {
			if h.Policy != Alpha { // whose rules have pauses of their own
				h.full = now + f.Rest
			}
			f.Driver.Waits(s, "host "+h.Name+" has no room for it any more")
		}
	}
	for _, p := range added {
		for _, x := range p.Frames {
			f.Driver.Ask(x)
		}
	}
	return more
}
