package planner_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/planner"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/workloads"
)

func fluid(t testing.TB, c env.Config, s workloads.Shape) *planner.Fluid {
	t.Helper()
	f, err := planner.NewFluid(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func at(t testing.TB, f *planner.Fluid, rate float64) planner.Bound {
	t.Helper()
	b, err := f.At(rate)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// One replica whose step takes 10 ms and 1 ms for each sequence, one prompt to a
// prefill, 100 tokens to a request, 30 ms to a token: a request takes
// 99·(10 + n) + 11·n ms of at most 3,000. So 18 sequences are in time and 19 are
// not; the mixture of the two that is, on average, carries 6.0897 a second.
func TestFluidOfOneReplica(t *testing.T) {
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 30 * time.Millisecond, Weight: 2, Quality: []float64{0.5}}},
		[]fleet.Variant{{Name: "model"}}, []fleet.Host{{Name: "a"}, {Name: "b"}},
		[]fleet.Replica{{Name: "model@a"}, {Name: "model@b", Host: 1}})
	if err != nil {
		t.Fatal(err)
	}
	p := &profile.Profile{Weights: 10, Sequence: 1, Contention: 0.15}
	c := env.Config{
		Table: table, Profiles: []*profile.Profile{p, p}, KVTokens: []int{100_000, 100_000},
		Engine: engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 50, MaxSequences: 200, BlockTokens: 16},
	}
	s := workloads.Shape{
		Prompt: workloads.Lengths{Distribution: "constant", Value: 50},
		Output: workloads.Lengths{Distribution: "constant", Value: 100},
	}
	speed := func(n float64) float64 { return n / (99*(10+n) + 11*n) }
	over, under := 19-3000*speed(19), 3000*speed(18)-18
	carries := 1000 * (speed(18)*over + speed(19)*under) / (over + under)
	if math.Abs(carries-6.0897) > 1e-4 {
		t.Fatalf("the test's own figure is %v", carries)
	}
	f := fluid(t, c, s)
	for _, rate := range []float64{1, 2 * carries, 3 * carries, 100} {
		want := min(1, 2*carries/rate)
		b := at(t, f, rate)
		if math.Abs(b.Utility-want) > 1e-5 || math.Abs(b.Share[0][0]-want) > 1e-5 {
			t.Errorf("at %v: utility %v, share %v; want %v", rate, b.Utility, b.Share[0][0], want)
		}
	}
	// The KV cache holds 1,200 tokens, of 100 on average to a sequence.
	c.KVTokens = []int{1200, 1200}
	if want := 2000 * speed(12) / 100; math.Abs(at(t, fluid(t, c, s), 100).Utility-want) > 1e-5 {
		t.Errorf("with a small KV cache %v, want %v", at(t, fluid(t, c, s), 100).Utility, want)
	}
}

// More load never helps a request and never hurts the sum; more hosts, and a
// softer deadline, never hurt; what is scarce goes to the task that gains most.
// The bound takes the requests of all tasks to be equally long, and says so where they are not.
func TestFluidRefusesLengthsByTask(t *testing.T) {
	c, s := pair(t), shape
	s.Tasks = map[string]workloads.TaskLengths{"easy": {Output: workloads.Lengths{Distribution: "constant", Value: 7}}}
	if _, err := planner.NewFluid(c, s); err == nil || !strings.Contains(err.Error(), "workload.task_lengths") {
		t.Errorf("a bound for tasks of unlike lengths: %v", err)
	}
}

func TestFluidIsMonotone(t *testing.T) {
	c := pair(t)
	f := fluid(t, c, shape)
	soft := c
	tasks := slices.Clone(c.Table.Tasks)
	for i := range tasks {
		tasks[i].Decay = fleet.PaperSoft()
	}
	var err error
	if soft.Table, err = fleet.NewTable(tasks, c.Table.Variants, c.Table.Hosts, c.Table.Replicas); err != nil {
		t.Fatal(err)
	}
	softer := fluid(t, soft, shape)
	last, gained := planner.Bound{Utility: 1}, 0.
	for rate := 0.5; rate < 200; rate *= 1.3 {
		b := at(t, f, rate)
		if b.Utility > last.Utility+1e-6 || rate*b.Utility < last.Rate*last.Utility-1e-5 {
			t.Errorf("at %v: %v, at %v: %v", last.Rate, last.Utility, rate, b.Utility)
		}
		if x := at(t, softer, rate).Utility; x < b.Utility-1e-6 {
			t.Errorf("at %v: hard %v, soft %v", rate, b.Utility, x)
		} else {
			gained += x - b.Utility
		}
		if easy, hard := b.Share[0][1], b.Share[1][1]; easy > 1e-5 && hard < 1-1e-5 {
			t.Errorf("at %v: the large variant answers %v of the easy task and %v of the hard one", rate, easy, hard)
		}
		last = b
	}
	if at(t, f, 0.5).Utility < 1-1e-6 || last.Utility > 0.7 || gained == 0 {
		t.Errorf("from 1 at rest to %v under the highest load, %v gained by softness: too easy a test", last.Utility, gained)
	}
	if mean, err := f.Over([]float64{2, 20, 20}); err != nil || math.Abs(mean-(at(t, f, 2).Utility+2*at(t, f, 20).Utility)/3) > 1e-12 {
		t.Errorf("over rates 2, 20, 20: %v, %v", mean, err)
	}
	for _, rates := range [][]float64{nil, {1, 0}} {
		if _, err := f.Over(rates); err == nil {
			t.Errorf("rates %v have a mean", rates)
		}
	}
}

// hardFirst is a rule of the tests: limits of its own for each task.
type hardFirst struct{ easy, hard limit }

func (hardFirst) Scratch() int { return 1 }

func (h hardFirst) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	if r.Task == 1 {
		return h.hard.Decide(v, r, scratch)
	}
	return h.easy.Decide(v, r, scratch)
}

// In steady state no rule is above the bound, and the best is not far below:
// from calm to overload, beyond noise.
func TestNoRuleBeatsTheFluidBound(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		c := pair(t)
		c.Check = false
		c.Engine.Scheduler = scheduler
		long := shape
		long.Output = workloads.Lengths{Distribution: "geometric", Mean: 200, Max: 800}
		f := fluid(t, c, long)
		for _, rate := range []float64{0.5, 1, 2, 4, 8, 16} {
			bound := at(t, f, rate).Utility
			best := 0.
			for _, rule := range []planner.Decider{limit(0), limit(1e9), limit(4), limit(8), limit(16), limit(32), hardFirst{2, 8}, hardFirst{0, 12}} {
				mean, noise := steady(t, c, long, rate, rule)
				best = max(best, mean)
				if mean > bound+3*noise {
					t.Errorf("%s, %v a second: %+v earns %.4f ± %.4f, the bound is %.4f", scheduler, rate, rule, mean, noise, bound)
				}
			}
			if best < 0.8*bound {
				t.Errorf("%s, %v a second: the bound is %.4f, the best rule earns %.4f", scheduler, rate, bound, best)
			}
			t.Logf("%s, %v a second: bound %.4f, best rule %.4f", scheduler, rate, bound, best)
		}
	}
}

// steady is the mean utility under Poisson arrivals, away from both ends, with
// its standard error over stretches that are long beside a request.
func steady(t *testing.T, c env.Config, s workloads.Shape, rate float64, d planner.Decider) (mean, noise float64) {
	t.Helper()
	const warm, stretch, stretches = 200, 200, 8
	process, err := workloads.NewPoisson(rate)
	if err != nil {
		t.Fatal(err)
	}
	c.Open = func(seed uint64) (workloads.Stream, error) {
		return workloads.New(process, c.Table.Tasks, s, seed, workloads.Limit{Requests: 2*warm + stretch*stretches})
	}
	e := begin(t, c, 5)
	var sums [stretches]float64
	scratch := make([]float32, d.Scratch())
	for over := false; !over; {
		step, err := e.Step(d.Decide(e.View(), e.Request(), scratch))
		if err != nil {
			t.Fatal(err)
		}
		for i := range step.Info.Outcomes {
			o := &step.Info.Outcomes[i]
			if k := (o.Decision - warm) / stretch; o.Decision >= warm && k < stretches {
				sums[k] += o.Utility / stretch
			}
		}
		over = step.Terminated
	}
	for _, x := range sums {
		mean += x / stretches
	}
	for _, x := range sums {
		noise += (x - mean) * (x - mean) / (stretches - 1) / stretches
	}
	return mean, math.Sqrt(noise)
}
