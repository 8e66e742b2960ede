package offload

import (
	"cmp"
	"slices"
)

// reacting is what a [Schedule] of [Alpha] holds: clients send by intervals of their own, and the server runs what has
// arrived whenever it is free (ARISE-18).
type reacting struct {
	// Verified has streams be admitted by their expected accuracy, in place of by the frames that had to wait for another
	// batch (ARISE-18, 19).
	Verified bool
	// Places sets how many streams are served at a time, whatever they lose; 0 has the schedule decide. Removed counts those
	// that go at a time where frames had to wait; 0 is one.
	Places, Removed int
	// Quiet sets how long no frame may have waited for another batch until a stream is added (ARISE-19).
	Quiet float64

	arrived  []*Frame // that are in no batch yet
	pushed   float64  // when a frame has waited last for so long that its client loses by it
	added    float64  // when a stream was added last
	admitted float64  // when that was decided last
}

// react begins a batch of what has arrived, as large as all in it tolerate.
func (s *Schedule) react(now float64) []*Frame {
	n, most := 0, len(s.Latency)
	for n < min(len(s.arrived), most) {
		if most = min(most, max(1, s.arrived[n].Stream.Setting.Batch)); n >= most {
			break
		}
		n++
	}
	if n == 0 {
		return nil
	}
	batch := slices.Clone(s.arrived[:n])
	s.arrived = slices.Delete(s.arrived, 0, n)
	for _, f := range batch {
		c := f.Stream
		x := Client{Network: c.Network + now - f.Arrived}
		if s.EndToEnd(&x, n) > s.EndToEnd(&Client{Network: c.Network}, max(1, c.Setting.Batch)) {
			s.pushed = now
		}
	}
	s.Begin(batch, 0, now)
	return batch
}

// Admit adds and removes streams of a schedule of [Alpha], gives those that are served the settings that suit them now, and
// returns those that are served from now on, or no longer.
func (s *Schedule) Admit(streams []*Stream, now, rest float64) (changed []*Stream) {
	list, of := s.Candidates(streams, now, rest)
	serve := func(c *Stream, in bool) bool {
		if in && !s.suits(c) {
			return false
		}
		c.Serve(in, now)
		changed = append(changed, c)
		return true
	}
	served := 0
	for _, c := range of {
		if c.Served {
			served++
		}
	}
	switch {
	case s.Places > 0:
		for _, c := range of {
			if !c.Served && served < s.Places && serve(c, true) {
				served++
			}
		}
	case s.Verified:
		_, kept := s.Plan(list, now, s.Horizon)
		for i, c := range of {
			if in := slices.Contains(kept, i); in != c.Served {
				serve(c, in)
			}
		}
	case s.pushed > s.admitted && served > 0:
		left := cmp.Or(s.Removed, 1)
		for _, c := range slices.Backward(of) {
			if c.Served && left > 0 {
				serve(c, false)
				left--
			}
		}
	case now-max(s.pushed, s.added) >= s.Quiet-Same:
		for _, c := range of {
			if !c.Served && serve(c, true) {
				s.added = now
				break
			}
		}
	}
	s.admitted = now
	for _, c := range of {
		if c.Served && !s.suits(c) && s.Places == 0 {
			serve(c, false)
		}
	}
	return changed
}

// suits gives a stream the setting that suits it now, and reports whether any keeps its SLA.
func (s *Schedule) suits(c *Stream) bool {
	x := s.Known(c)
	best := s.Best(&x)
	if best.Interval > 0 {
		c.Setting = best
	}
	return best.Interval > 0
}

// settle drops what streams are asked for from behind what they are about to send.
func (s *Schedule) settle(streams []*Stream, now, lead float64) {
	for _, c := range streams {
		c.last = c.done
	}
	s.batches = slices.DeleteFunc(s.batches, func(p *Scheduled) bool {
		f := p.Frames[0]
		if p.Start >= now+lead {
			p.void()
			return true
		}
		c := f.Stream
		c.last = max(c.last, f.Number)
		if p.Start > now {
			return false
		}
		c.done = max(c.done, f.Number) // it has been sent
		return true
	})
}

// ask asks streams for frames at their intervals, each expected when it arrives by itself, and at once for those that are
// served from now on.
func (s *Schedule) ask(streams []*Stream, now float64) []*Scheduled {
	kept := len(s.batches)
	for _, c := range streams {
		if !c.Served {
			continue
		}
		x, interval := s.Known(c), max(1, c.Setting.Interval)
		n := max(c.last+interval, c.Newest(now+c.Network/2)+1)
		if c.Since == now {
			n = c.Newest(now+c.Network/2) + 1
		}
		for lag := x.Arrival - float64(x.Last); float64(n)+lag <= now+s.Horizon; n += interval {
			p := &Scheduled{Start: float64(n) + lag, takes: s.Took(0, 1)}
			p.planned, p.Frames = p.Start, []*Frame{{Stream: c, Number: n, Arrived: -1, planned: p}}
			s.batches = append(s.batches, p)
			c.last = n
		}
	}
	return s.batches[kept:]
}
