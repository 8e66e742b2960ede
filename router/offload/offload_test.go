package offload_test

import (
	"math"
	"slices"
	"testing"

	"gearshift/router/offload"
)

// synthetic is a server whose batches of 1 to 8 take these milliseconds at 60 frames per second, 7 between its
// neighbours.
func synthetic(grace float64) offload.Server {
	s := offload.Server{Grace: grace, Longest: 60}
	for _, ms := range []float64{18, 23, 28, 33, 38, 43, 48, 53} {
		s.Latency = append(s.Latency, ms*60/1000)
	}
	return s
}

// ARISE-1 to 4: strides, the estimate of the rate, the drop beside the reference setup.
func TestAccuracy(t *testing.T) {
	if m := offload.MeanStride(2, 4); m != 3.5 {
		t.Errorf("strides 2 to 5 have the mean %v, want 3.5", m)
	}
	if a := offload.Rate(0.032, 8); math.Abs(a-0.004) > 1e-15 {
		t.Errorf("a loss of .032 over 8 frames is a rate of %v, want .004", a)
	}
	if a := offload.Rate(-0.1, 4); a != 0 {
		t.Errorf("a tracker that gains has the rate %v, want 0", a)
	}
	s, c := synthetic(0), &offload.Client{SLA: 0.02, Rate: 0.004, Network: 0.9}
	if r := s.Reference(c); r != 2.5 {
		t.Errorf("the reference has the mean stride %v, want 2.5: every 2 frames, after 2", r)
	}
	if d := s.Drop(c, offload.MeanStride(3, 4)); math.Abs(d-0.008) > 1e-12 {
		t.Errorf("every 4 frames, after 3, loses %v beyond the reference, want .008", d)
	}
}

// ARISE-5, and that grace costs capacity and changes no setting.
func TestBestSettings(t *testing.T) {
	for _, c := range []struct {
		rate, sla        float64
		batch, interval  int
		capacity, graced float64
	}{
		{0.005, 0.02, 4, 8, 16.16, 14.69},
		{0.007, 0.02, 4, 5, 10.10, 9.18},
		{0.010, 0.02, 4, 4, 8.08, 7.35},
		{0.010, 0.04, 4, 8, 16.16, 14.69},
	} {
		client := &offload.Client{SLA: c.sla, Rate: c.rate, Network: 0.9}
		for grace, want := range map[float64]float64{0: c.capacity, 0.1: c.graced} {
			s := synthetic(grace)
			x := s.Best(client)
			if got := s.Capacity(x); x != (offload.Setting{Interval: c.interval, Batch: c.batch}) || math.Abs(got-want) > 0.005 {
				t.Errorf("rate %v, SLA %v, grace %v: %+v carries %.2f clients, want batches of %d every %d frames and %v", c.rate, c.sla, grace, x, got, c.batch, c.interval, want)
			}
		}
	}
}

// A client that loses too much even alone has no setting, and one that loses nothing sends as rarely as is allowed.
func TestSettingsAtTheEnds(t *testing.T) {
	s := synthetic(0)
	if x := s.Best(&offload.Client{SLA: -0.01, Rate: 0.01, Network: 0.9}); x.Interval != 0 || s.Capacity(x) != 0 {
		t.Errorf("a client below its reference has %+v", x)
	}
	if x := s.Best(&offload.Client{SLA: 0.02, Network: 0.9}); x.Interval != s.Longest || x.Batch != 8 {
		t.Errorf("a client that loses nothing has %+v, want the largest batch every %d frames", x, s.Longest)
	}
}

// ARISE-5 beside a search through all settings, of drawn clients and tables.
func TestBestSettingsBesideASearch(t *testing.T) {
	for seed := range uint64(300) {
		r := rand(seed)
		s := offload.Server{Longest: 60}
		ms := 5 + 20*r.Float64()
		for range 1 + r.IntN(10) {
			s.Latency = append(s.Latency, ms*0.06)
			ms += 8 * r.Float64()
		}
		c := &offload.Client{SLA: 0.06 * r.Float64(), Rate: 0.001 + 0.015*r.Float64(), Network: 3 * r.Float64()}
		best := offload.Setting{}
		for n := 1; n <= len(s.Latency); n++ {
			for interval := 1; interval <= s.Longest; interval++ {
				sum := 0.0
				for stride := s.EndToEnd(c, n); stride < s.EndToEnd(c, n)+interval; stride++ {
					sum += c.Rate * float64(stride)
				}
				x := offload.Setting{Interval: interval, Batch: n}
				if sum/float64(interval)-c.Rate*s.Reference(c) <= c.SLA+offload.Same && s.Capacity(x) > s.Capacity(best)*(1+offload.Same) {
					best = x
				}
			}
		}
		if got := s.Best(c); got != best {
			t.Fatalf("seed %d: %+v, a search finds %+v", seed, got, best)
		}
	}
}

// ARISE-6: recent arrivals together predict better than the last alone, and follow a network that gets slower.
func TestArrivals(t *testing.T) {
	var a offload.Arrivals
	if _, ok := a.Predict(3); ok {
		t.Error("a client of which nothing has arrived is predicted")
	}
	a.Add(6, 8)
	if at, ok := a.Predict(9); !ok || at != 11 || a.Spread() != 0 {
		t.Errorf("after frame 6 at 8, frame 9 is predicted at %v ± %v, want 11", at, a.Spread())
	}
	a.Add(6, 100) // again
	late := []float64{0.4, -0.3, 0.2, -0.1, 0.3, -0.4, 0, 0.9}
	for i, x := range late {
		a.Add(10+4*i, 12+float64(4*i)+x)
	}
	at, _ := a.Predict(42)
	if alone := 44.9; math.Abs(at-44) > 0.5 || math.Abs(at-44) >= math.Abs(alone-44) || a.Spread() < 0.3 || a.Spread() > 0.7 {
		t.Errorf("frame 42 is predicted at %v ± %v, want about 44", at, a.Spread())
	}
	for i := range 12 {
		a.Add(100+i, 105+float64(i))
	}
	if at, _ := a.Predict(112); math.Abs(at-117) > 0.1 {
		t.Errorf("over a network that takes 5 frames now, frame 112 is predicted at %v, want 117", at)
	}
}

func starts(batches []offload.Batch) (list []float64) {
	for _, b := range batches {
		list = append(list, b.Start)
	}
	return list
}

func framesOf(batches []offload.Batch) (list [][2]int) {
	for _, b := range batches {
		for _, r := range b.Requests {
			list = append(list, [2]int{r.Client + 1, r.Frame})
		}
	}
	return list
}

// figure10 has the clients of ARISE's Fig. 10, whose SLAs are not stated there.
func figure10(policy offload.Policy) (*offload.Planner, []offload.Client) {
	given := func(interval, last int, arrival float64) offload.Client {
		return offload.Client{SLA: 1, Rate: 0.001, Last: last, Arrival: arrival, Given: offload.Setting{Interval: interval, Batch: 2}}
	}
	return &offload.Planner{Server: offload.Server{Latency: []float64{1.5, 2}, Longest: 60}, Policy: policy},
		[]offload.Client{given(3, 6, 8), given(3, 9, 11), given(4, 12, 9)}
}

// ARISE-6, 7, 18: what is predicted in Fig. 10, what a server that reacts makes of it, and what Algorithm 1 does.
func TestFigure10(t *testing.T) {
	p, clients := figure10(offload.Arise)
	var got []float64
	var frames [][2]int
	for _, r := range p.Predicted(clients, 11, 6) {
		got, frames = append(got, r.Arrival), append(frames, [2]int{r.Client + 1, r.Frame})
	}
	if want := [][2]int{{1, 9}, {3, 16}, {1, 12}, {2, 12}, {1, 15}, {2, 15}, {3, 20}}; !slices.Equal(frames, want) || !slices.Equal(got, []float64{11, 13, 14, 14, 17, 17, 17}) {
		t.Errorf("predicted %v at %v, want %v", frames, got, want)
	}
	p, clients = figure10(offload.Alpha)
	batches, kept := p.Plan(clients, 11, 6)
	if want := []float64{11, 13, 14.5, 17, 19}; !slices.Equal(starts(batches), want) || len(kept) != 3 || len(batches[2].Requests) != 2 || len(batches[3].Requests) != 2 {
		t.Errorf("a server that reacts starts %v, want %v", starts(batches), want)
	}
	p, clients = figure10(offload.Arise)
	batches, kept = p.Plan(clients, 11, 6)
	want := [][2]int{{1, 9}, {3, 14}, {1, 11}, {2, 11}, {1, 13}, {2, 13}, {3, 20}}
	if !slices.Equal(starts(batches), []float64{11, 13, 15, 17}) || !slices.Equal(framesOf(batches), want) || len(kept) != 3 {
		t.Errorf("packed: %v at %v, want %v at 11, 13, 15, 17", framesOf(batches), starts(batches), want)
	}
}

// ARISE-7: the size of the first batch by what the clients of the next requests tolerate.
func TestBatchSizes(t *testing.T) {
	for _, c := range []struct {
		tolerated []int
		want      int
	}{{[]int{3, 3, 2, 3}, 2}, {[]int{1, 5, 5}, 1}, {[]int{4, 4, 4, 4, 1}, 4}, {[]int{2, 2, 2}, 2}} {
		p := &offload.Planner{Server: synthetic(0)}
		var clients []offload.Client
		for _, n := range c.tolerated {
			clients = append(clients, offload.Client{SLA: 10, Rate: 0.001, Given: offload.Setting{Interval: 10, Batch: n}})
		}
		batches, _ := p.Plan(clients, 10, 5)
		if got := len(batches[0].Requests); got != c.want {
			t.Errorf("of clients that tolerate %v the first batch has %d, want %d", c.tolerated, got, c.want)
		}
	}
}

// figure4 has five clients, three of one kind, on a server whose batches of 1, 2, 3 take 1.5, 2 and 2.5 frames. Each
// has the least SLA with which its setting is kept.
func figure4(three, two offload.Setting) (p *offload.Planner, clients []offload.Client) {
	p = &offload.Planner{Server: offload.Server{Latency: []float64{1.5, 2, 2.5}, Longest: 60}}
	for i := range 5 {
		c := offload.Client{Rate: 0.01, Last: -three.Interval, Arrival: -float64(three.Interval), Given: three}
		if i > 2 {
			c.Last, c.Arrival, c.Given = -two.Interval, -float64(two.Interval), two
		}
		c.SLA = p.Drop(&c, offload.MeanStride(p.EndToEnd(&c, c.Given.Batch), c.Given.Interval))
		clients = append(clients, c)
	}
	return p, clients
}

// ARISE Fig. 4: (b) the fourth client fits behind a batch of three, the fifth does not; (c) all five fit where all
// send every 8 frames, and not where the last two send every 4: that takes 9.5 of 8 frames.
func TestFigure4(t *testing.T) {
	p, clients := figure4(offload.Setting{Interval: 4, Batch: 3}, offload.Setting{Interval: 4, Batch: 1})
	batches, kept := p.Plan(clients, 0, 16)
	if !slices.Equal(kept, []int{0, 1, 2, 3}) || !slices.Equal(starts(batches)[:4], []float64{0, 2.5, 4, 6.5}) {
		t.Errorf("(b) keeps %v, batches start at %v; want the first four, at 0, 2.5, 4, 6.5", kept, starts(batches))
	}
	p, clients = figure4(offload.Setting{Interval: 8, Batch: 2}, offload.Setting{Interval: 4, Batch: 1})
	if _, kept = p.Plan(clients, 0, 16); len(kept) == 5 {
		t.Errorf("(c) with the last two every 4 frames keeps %v, want fewer", kept)
	}
	p, clients = figure4(offload.Setting{Interval: 8, Batch: 2}, offload.Setting{Interval: 8, Batch: 1})
	batches, kept = p.Plan(clients, 0, 16)
	if len(kept) != 5 || !slices.Equal(starts(batches)[:4], []float64{0, 2, 3.5, 5}) {
		t.Errorf("(c) keeps %v, batches start at %v; want all five, at 0, 2, 3.5, 5", kept, starts(batches))
	}
}
