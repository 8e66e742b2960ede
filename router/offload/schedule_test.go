package offload_test

import (
	"math"
	"slices"
	"testing"

	"gearshift/router/offload"
)

func schedule(policy offload.Policy) *offload.Schedule {
	s := &offload.Schedule{Horizon: 60}
	s.Policy, s.Longest, s.Latency = policy, 60, []float64{1, 1.1, 1.2, 1.3, 1.4, 1.5}
	return s
}

func streaming(n int) (list []*offload.Stream) {
	for range n {
		list = append(list, &offload.Stream{SLA: 0.05, Rate: 0.005, Network: 1})
	}
	return list
}

// begins lists the starts of batches.
func begins(list []*offload.Scheduled) (at []float64) {
	for _, p := range list {
		at = append(at, p.Start)
	}
	return at
}

// A client whose frames come much later than before waits by itself: the others' batches begin as they would.
func TestALateClientDelaysNobody(t *testing.T) {
	s := schedule(offload.Gearshift)
	list := streaming(4)
	for _, c := range list {
		c.Serve(true, 50)
	}
	s.Replan(list, 100, 60)
	for _, c := range list {
		for f := range 8 {
			c.Arrivals.Add(96+f, 96.5+float64(f))
		}
	}
	slow := list[3]
	slow.Arrivals = offload.Arrivals{}
	slow.Arrivals.Add(103, 150)
	added, _ := s.Replan(list, 110, 60)
	if len(added) < 3 || added[0].Start > 115 || len(added[0].Frames) != 3 {
		t.Fatalf("batches at %v; want the first within the lead, of the three others", begins(added))
	}
	for i := 1; i < len(added); i++ {
		if gap := added[i].Start - added[i-1].Start; gap > 12 {
			t.Errorf("no batch for %v frames: %v", gap, begins(added))
		}
	}
}

// A batch begins once all of it is there, and without what is missing when its grace is over; that is in the next one
// where clients are served by deadlines.
func TestABatchBeginsWhenItIsThere(t *testing.T) {
	for _, policy := range []offload.Policy{offload.Gearshift, offload.Arise} {
		s := schedule(policy)
		s.Grace = 0.5
		list := streaming(3)
		for _, c := range list { // served from the beginning on
			c.Serve(true, 50)
		}
		added, changed := s.Replan(list, 100, 60)
		if len(changed) > 0 || len(added) < 2 || len(added[0].Frames) < 2 {
			t.Fatalf("%s: %d batches, %d changes", policy, len(added), len(changed))
		}
		first, second := added[0], added[1]
		if frames, _, _, again := s.Next(100); frames != nil || again != first.Start+0.5*s.Latency[len(first.Frames)-1] {
			t.Errorf("%s: %d frames begin, or look again at %v; want none before %v and its grace", policy, len(frames), again, first.Start)
		}
		for _, f := range first.Frames {
			if s.Arrive(f, 100.5) {
				t.Errorf("%s: frame %d missed its batch", policy, f.Number)
			}
		}
		if frames, _, late, _ := s.Next(100.5); len(frames) != len(first.Frames) || late >= 0 {
			t.Errorf("%s: %d frames begin, %v later than planned; want all, early", policy, len(frames), late)
		}
		missing := second.Frames[0]
		for _, f := range second.Frames[1:] {
			s.Arrive(f, 101)
		}
		at := second.Start + 0.5*s.Latency[len(second.Frames)-1]
		frames, _, late, _ := s.Next(at)
		if len(frames) != len(second.Frames)-1 || math.Abs(late-(at-second.Start)) > 1e-9 {
			t.Errorf("%s: %d frames begin, %v later than planned", policy, len(frames), late)
		}
		if !s.Arrive(missing, at+0.1) {
			t.Errorf("%s: a frame that comes after its batch began did not miss it", policy)
		}
		third := added[2]
		for _, f := range third.Frames {
			s.Arrive(f, at+0.2)
		}
		want := len(third.Frames)
		if policy == offload.Gearshift {
			want++
		}
		if frames, _, _, _ := s.Next(at + 0.3); len(frames) != want {
			t.Errorf("%s: the next batch has %d frames; want %d", policy, len(frames), want)
		}
	}
}

// What is about to be sent stays as it was planned. What comes later, and a client that goes, leave the schedule.
func TestAScheduleIsReplacedFromBehind(t *testing.T) {
	s := schedule(offload.Gearshift)
	list := streaming(4)
	added, changed := s.Replan(list, 100, 60)
	if len(changed) != 4 {
		t.Fatalf("%d are served; want 4", len(changed))
	}
	added = slices.Clone(added)
	s.Replan(list, 101, 60)
	for _, p := range added {
		for _, f := range p.Frames {
			if kept := p.Start < 101+2.5; f.Void == kept {
				t.Errorf("frame %d at %v: void %v", f.Number, p.Start, f.Void)
			}
		}
	}
	s.Drop(list[0])
	list[0].Serve(false, 102)
	for now := 102.0; now < 170; now += 0.5 {
		frames, _, _, _ := s.Next(now)
		for _, f := range frames {
			if f.Stream == list[0] {
				t.Error("a client that has gone is in a batch")
			}
		}
	}
	s.Until = 190
	if added, _ := s.Replan(list[1:], 180, 60); len(added) == 0 || added[0].Start < 190 {
		t.Errorf("batches at %v; want none before the running one ends at 190", begins(added))
	}
}

// The first results of a client count alike, then the latest most; and of a client that is little known more is held back,
// by deadlines.
func TestEstimatesSettle(t *testing.T) {
	s := schedule(offload.Gearshift)
	s.Margin, s.Weight = 0.1, 0.2
	c := &offload.Stream{SLA: 0.05, Rate: 0.005, Network: 1}
	held := func() float64 { return s.Known(c).Rate/c.Rate - 1 }
	if x := held(); math.Abs(x-0.1*math.Sqrt(10)) > 1e-9 {
		t.Errorf("of a client that has just come %v more is taken to be lost", x)
	}
	for _, x := range []float64{0.008, 0.008, 0.008, 0.008} {
		s.Learn(c, x)
	}
	if want := (0.5*0.005 + 4*0.008) / 4.5; math.Abs(c.Rate-want) > 1e-9 || math.Abs(held()-0.1/math.Sqrt(0.9)) > 1e-9 {
		t.Errorf("after four results the rate is %v, want %v, with %v more", c.Rate, want, held())
	}
	was := c.Rate
	if s.Learn(c, was+0.001); math.Abs(c.Rate-was-0.0002) > 1e-9 || math.Abs(held()-0.1) > 1e-9 {
		t.Errorf("the next result counts a fifth, but the rate is %v", c.Rate)
	}
	if s.Policy = offload.Arise; math.Abs(held()-0.1) > 1e-9 {
		t.Errorf("ARISE holds %v back", held())
	}
}
