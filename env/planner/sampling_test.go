package planner_test

import (
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/planner"
	"gearshift/workloads"
)

func options() planner.SamplingOptions {
	return planner.SamplingOptions{
		Horizon: 3 * time.Second, Samples: 12, Least: 4, Margin: 1,
		Shape: shape, Rates: planner.Rates{Least: 0.5, Most: 30, Phase: 10 * time.Second},
	}
}

func sampling(t testing.TB, e *env.Environment, base planner.Decider, o planner.SamplingOptions) planner.Decider {
	t.Helper()
	s, err := planner.NewSampling(e, 7, base, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Two worlds that a router cannot tell apart yet get the same choices: the
// output lengths of what is in flight, those of the request itself, and all that
// arrives later are hidden from the planner.
func TestSamplingSeesNoFuture(t *testing.T) {
	c := pair(t)
	const shared = 25
	stream, err := bursts(t, c, 2*shared)(3)
	if err != nil {
		t.Fatal(err)
	}
	var here, there list
	for a, ok := stream.Next(); ok; a, ok = stream.Next() {
		a.At /= 4
		a.OutputTokens = 400 // still in flight at the last shared arrival
		b := a
		b.OutputTokens = 390 + 7*len(here)
		if len(here) >= shared {
			b.At += time.Duration(len(here)) * time.Second / 3
			b.Task = 1 - a.Task
		}
		here, there = append(here, a), append(there, b)
	}
	if span := here[shared-1].At - here[0].At; span > 1800*time.Millisecond {
		t.Fatalf("the shared arrivals span %v, so some requests have ended", span)
	}
	choices := func(l list) []int {
		c.Open = func(uint64) (workloads.Stream, error) { l := slices.Clone(l); return &l, nil }
		e := begin(t, c, 1)
		all, _ := play(t, e, sampling(t, e, limit(5), options()))
		return all
	}
	a, b := choices(here), choices(there)
	if !slices.Equal(a[:shared], b[:shared]) {
		t.Errorf("choices before the worlds part:\n%v\n%v", a[:shared], b[:shared])
	}
	if slices.Equal(a, b) {
		t.Error("the choices are the same to the end: the test lost its point")
	}
}

// The planner improves on a rule that is far too timid, knowing no more than it.
func TestSamplingImprovesOnItsBase(t *testing.T) {
	var base, planned float64
	for seed := range uint64(3) {
		c := pair(t)
		c.Check = false
		c.Open = bursts(t, c, 100)
		_, total := play(t, begin(t, c, seed), limit(1))
		base += total
		e := begin(t, c, seed)
		_, total = play(t, e, sampling(t, e, limit(1), options()))
		planned += total
	}
	if planned < base+10 {
		t.Errorf("300 requests: the base earns %.1f, the planner %.1f", base, planned)
	}
}

// Where the tasks' answers are of unlike lengths, one who knows that plans better than one
// who takes all requests to be of the lengths of all.
func TestSamplingKnowsLengthsByTask(t *testing.T) {
	world := shape
	world.Tasks = map[string]workloads.TaskLengths{
		"easy": {Output: workloads.Lengths{Distribution: "uniform", Min: 5, Max: 15}},
		"hard": {Output: workloads.Lengths{Distribution: "uniform", Min: 250, Max: 400}},
	}
	var all, byTask float64
	for seed := range uint64(3) {
		c := pair(t)
		c.Check = false
		c.Open = burstsOf(t, c, world, 100)
		for _, known := range []struct {
			shape workloads.Shape
			total *float64
		}{{shape, &all}, {world, &byTask}} {
			o := options()
			o.Shape = known.shape
			e := begin(t, c, seed)
			_, total := play(t, e, sampling(t, e, limit(4), o))
			*known.total += total
		}
	}
	if byTask < all+15 {
		t.Errorf("300 requests: by the lengths of all %.1f, by each task's %.1f", all, byTask)
	}
}

// Without a horizon there are no arrivals to come, rather than no end of them;
// a declared rate is what they come at.
func TestSamplingHorizonAndDeclaredRate(t *testing.T) {
	c := pair(t)
	c.Open = bursts(t, c, 40)
	choices := func(horizon time.Duration, known bool) []int {
		c.KnownRate = known
		o := options()
		o.Horizon = horizon
		e := begin(t, c, 1)
		got, _ := play(t, e, sampling(t, e, limit(4), o))
		return got
	}
	none, some, told := choices(0, false), choices(3*time.Second, false), choices(3*time.Second, true)
	if slices.Equal(none, some) || slices.Equal(some, told) {
		t.Errorf("no horizon %v, some %v, with the rate declared %v: the same choices", none, some, told)
	}
}

// A margin that nothing passes leaves every choice to the base.
func TestSamplingMargin(t *testing.T) {
	c := pair(t)
	c.Open = bursts(t, c, 40)
	own, _ := play(t, begin(t, c, 1), limit(4))
	for _, margin := range []float64{0, 1e9} {
		o := options()
		o.Margin = margin
		e := begin(t, c, 1)
		if got, _ := play(t, e, sampling(t, e, limit(4), o)); slices.Equal(got, own) != (margin > 0) {
			t.Errorf("margin %v: choices %v, those of the base %v", margin, got, own)
		}
	}
}
