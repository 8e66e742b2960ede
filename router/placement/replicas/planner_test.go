package replicas_test

import (
	"strings"
	"testing"
	"time"

	"gearshift/router/placement/replicas"
)

// quarter is a plan with a value each quarter of an hour, not smoothed, for replicas that warm up
// in half an hour.
var quarter = replicas.Plan{
	Forecast: replicas.Forecast{Season: 96, Seasons: 3, Level: 12, Recent: 3, Trend: 3}, Interval: 15 * time.Minute, Capacity: 10, WarmUp: 30 * time.Minute, Keep: 15 * time.Minute,
	Target: 1, Quantile: 0.5, Guard: 1, Least: 1,
}

func newPlanner(t *testing.T, c replicas.Plan) *replicas.Planner {
	t.Helper()
	p, err := replicas.NewPlanner(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// step is a day whose load jumps from 20 to 95 in the middle and back at its end.
func step(i int) float64 {
	if i%96 < 48 {
		return 20
	}
	return 95
}

// play has the second day pass, and returns the replicas that are wanted after each interval.
func play(s replicas.Scaler, load func(int) float64) (wanted []int) {
	n := 3
	for i := range 96 {
		n = s.Desired(time.Duration(i+1)*15*time.Minute, load(i), n)
		wanted = append(wanted, n)
	}
	return wanted
}

// TestReplicasAreStartedBeforeTheyAreNeeded: a planner that knows a day has ten replicas started a
// warm-up before the load of the next day jumps; a reactive one follows it.
func TestReplicasAreStartedBeforeTheyAreNeeded(t *testing.T) {
	p := newPlanner(t, quarter)
	var day []float64
	for i := range 96 {
		day = append(day, step(i))
	}
	p.Learn(day)
	planned := play(p, step)
	reactive := play(&replicas.Reactive{Capacity: 10, Target: 1, Least: 1}, step)
	// After interval 45 the load jumps in half an hour.
	if planned[45] < 10 || planned[40] > 3 {
		t.Errorf("planned are %d replicas half an hour before the jump and %d before that, want 10 and 2 or 3", planned[45], planned[40])
	}
	if reactive[47] != 2 || reactive[48] != 10 {
		t.Errorf("the reactive scaler wants %d before the jump and %d at it, want 2 and 10", reactive[47], reactive[48])
	}
	if n := p.Needed(1); n > 3 {
		t.Errorf("%d replicas are needed after the load has fallen, want 2 or 3", n)
	}
}

// TestUnexpectedLoadIsFollowed: what no day has had is answered as soon as it is seen.
func TestUnexpectedLoadIsFollowed(t *testing.T) {
	p := newPlanner(t, quarter)
	p.Learn(make([]float64, 96))
	if n := p.Desired(15*time.Second, 73, 1); n != 8 {
		t.Errorf("%d replicas for a load of 73 at 10 each, want 8", n)
	}
}

// TestReactiveFollowsItsOptions: within the tolerance nothing changes, a mean hides what is short,
// and fewer replicas are wanted only once all of the last wishes were lower.
func TestReactiveFollowsItsOptions(t *testing.T) {
	r := &replicas.Reactive{Capacity: 10, Target: 0.5, Tolerance: 0.1, Stabilisation: time.Minute, Window: 30 * time.Second, Least: 2}
	for i, x := range []struct {
		rate float64
		have int
		want int
	}{
		{50, 10, 10}, {54, 10, 10}, {76, 10, 13}, {76, 13, 16}, {40, 16, 16}, {40, 16, 16}, {40, 16, 16}, {40, 16, 16}, {40, 16, 12}, {0, 12, 8}, {0, 8, 8},
	} {
		if got := r.Desired(time.Duration(i+1)*15*time.Second, x.rate, x.have); got != x.want {
			t.Errorf("call %d: %d replicas for a rate of %v with %d, want %d", i, got, x.rate, x.have, x.want)
		}
	}
}

func TestBadPlans(t *testing.T) {
	for want, change := range map[string]func(*replicas.Plan){
		"an interval of 0s":                    func(c *replicas.Plan) { c.Interval = 0 },
		"a capacity of 0 examples/s":           func(c *replicas.Plan) { c.Capacity = 0 },
		"a warm-up of 2h0m0s, and":             func(c *replicas.Plan) { c.WarmUp = 2 * time.Hour },
		"a target of 1.5":                      func(c *replicas.Plan) { c.Target = 1.5 },
		"a quantile of 2":                      func(c *replicas.Plan) { c.Quantile = 2 },
		"a guard of 0":                         func(c *replicas.Plan) { c.Guard = 0 },
		"a stabilisation of -1ns":              func(c *replicas.Plan) { c.Stabilisation = -1 },
		"-1 replicas at least":                 func(c *replicas.Plan) { c.Least = -1 },
		"cannot forecast: a season of 2 inter": func(c *replicas.Plan) { c.Season = 2 },
	} {
		c := quarter
		change(&c)
		if _, err := replicas.NewPlanner(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// BenchmarkPlan is a minute of a planner that asks each quarter of it, with a day of minutes.
func BenchmarkPlan(b *testing.B) {
	c := quarter
	c.Forecast = replicas.Forecast{Season: 1440, Seasons: 7, Smooth: 2, Level: 120, Recent: 10, Trend: 10}
	c.Interval, c.WarmUp = time.Minute, 10*time.Minute
	p, err := replicas.NewPlanner(c)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		for range 4 {
			now += 15 * time.Second
			p.Desired(now, 100+float64(now/time.Minute%1440), 10)
		}
	}
}
