package offload

import (
	"math"
	"slices"
	"testing"
)

// alpha returns a schedule of [Alpha], and streams whose settings have an interval of 6 and batches of 2.
func alpha(n int) (*Schedule, []*Stream) {
	s := &Schedule{Horizon: 60, Fixed: Setting{Interval: 6, Batch: 2}}
	s.Policy, s.Latency, s.Longest, s.Quiet = Alpha, []float64{1, 1.5}, 60, 24
	var list []*Stream
	for range n {
		list = append(list, &Stream{SLA: 0.05, Rate: 0.005, Network: 2})
	}
	return s, list
}

// Clients are asked for frames at their intervals, none twice, and the server runs what has arrived when it is free, of
// one client as of two, and never waits for the other.
func TestAlphaRunsWhatHasArrived(t *testing.T) {
	s, list := alpha(2)
	s.Places = 2
	var asked []int
	for now := 100.0; now < 160; now += 12 {
		added, _ := s.Replan(list, now, 60)
		for _, p := range added {
			if f := p.Frames[0]; f.Stream == list[0] {
				asked = append(slices.DeleteFunc(asked, func(n int) bool { return n >= f.Number }), f.Number)
			}
		}
	}
	for i := 1; i < len(asked); i++ {
		if asked[i]-asked[i-1] != 6 {
			t.Fatalf("asked for %v; want each 6th", asked)
		}
	}
	if len(asked) < 15 || asked[0] > 103 {
		t.Errorf("asked for %v; want frames from 102 on, over the horizon", asked)
	}
	frame := func(c *Stream, n int, at float64) { s.Arrive(&Frame{Stream: c, Number: n}, at) }
	frame(list[0], 102, 103)
	if batch, _, late, _ := s.Next(103); len(batch) != 1 || late != 0 {
		t.Errorf("%d frames, %v late; want the one that is there", len(batch), late)
	}
	if batch, _, _, again := s.Next(103); len(batch) != 0 || !math.IsInf(again, 1) {
		t.Errorf("%d frames of none", len(batch))
	}
	for n := range 3 {
		frame(list[n%2], 108+n, 110)
	}
	if batch, _, _, _ := s.Next(110); len(batch) != 2 {
		t.Errorf("a batch of %d; want no more than all in it tolerate, 2", len(batch))
	}
	s.Drop(list[0])
	if batch, _, _, _ := s.Next(112); len(batch) != 0 {
		t.Errorf("%d frames of a stream that has gone", len(batch))
	}
}

// A stream is added each time that no frame has had to wait for a while, and one goes where a frame had to.
func TestAlphaAdmitsByWaitingFrames(t *testing.T) {
	s, list := alpha(3)
	served := func(now float64) (n int) {
		s.Replan(list, now, 60)
		for _, c := range list {
			if c.Served {
				n++
			}
		}
		return n
	}
	for _, want := range []struct {
		at float64
		n  int
	}{{100, 1}, {112, 1}, {124, 2}, {136, 2}} {
		if n := served(want.at); n != want.n {
			t.Errorf("%d served at %v; want %d", n, want.at, want.n)
		}
	}
	s.Arrive(&Frame{Stream: list[0], Number: 120}, 138)
	s.Next(141) // 3 frames later, where a batch of two would take 1.5
	if n := served(148); n != 1 || !list[0].Served {
		t.Errorf("%d served after a frame had to wait; want the first alone", n)
	}
	s, list = alpha(3)
	if s.Verified = true; served(100) != 3 {
		t.Error("not all are served, of 3 that would keep their SLA")
	}
}
