package modality

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/router/solve"
)

// linear is the latency of batches whose requests run one after the other.
func linear(each float64, most int) []float64 {
	var list []float64
	for n := range most {
		list = append(list, each*float64(n+1))
	}
	return list
}

// figure2 is the paper's example (MOSEL, Figure 2).
func figure2() []Option {
	return []Option{
		{"audio", 0.67, linear(20, 4)},
		{"video", 0.70, linear(30, 4)},
		{"both", 0.80, linear(60, 4)},
	}
}

// job is one that may use every option.
func job(id string, size int, floor, deadline float64) Job {
	return Job{ID: id, Size: size, MinQuality: floor, Deadline: deadline}
}

func table(t testing.TB, options []Option, mixing Mixing, size int) *Table {
	t.Helper()
	table, err := NewTable(options, mixing, size)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// strategies are those of a size by their times and mean qualities.
func strategies(table *Table, size int) (list []string) {
	for i, p := range table.Front(size) {
		list = append(list, fmt.Sprintf("%v %.3f %g", table.Batches(size, i, nil), p.Value/float64(size), p.Cost))
	}
	return list
}

// TestStrategiesOfFigure2: the six strategies of two requests, of which none beats another.
// The paper's text says that two of them are feasible for its second job; its numbers give
// three.
func TestStrategiesOfFigure2(t *testing.T) {
	table := table(t, figure2(), Mixed, 2)
	want := []string{
		"[2 0 0] 0.670 40", "[1 1 0] 0.685 50", "[0 2 0] 0.700 60", "[1 0 1] 0.735 80", "[0 1 1] 0.750 90", "[0 0 2] 0.800 120",
	}
	if got := strategies(table, 2); !slices.Equal(got, want) {
		t.Errorf("strategies %v, want %v", got, want)
	}
	second := Job{ID: "2", Size: 2, MinQuality: 0.71, Deadline: 140}
	feasible := 0
	for _, p := range table.Front(2) {
		if 20+p.Cost <= second.Deadline && p.Value/2 >= second.MinQuality {
			feasible++
		}
	}
	if first, ok := table.fastest(&second); feasible != 3 || !ok || len(table.Front(2))-first != 3 {
		t.Errorf("%d are feasible, want 3", feasible)
	}
}

// plan returns the plan of the jobs, each step as strategy and finish.
func plan(t testing.TB, table *Table, mode Mode, free float64, jobs ...Job) (*Plan, []string) {
	t.Helper()
	planner, err := NewPlanner(table, mode)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if err := table.Check(&jobs[i]); err != nil {
			t.Fatal(err)
		}
	}
	var p Plan
	planner.Plan(free, jobs, &p)
	var list []string
	for _, s := range p.Steps {
		list = append(list, fmt.Sprintf("%s %v %g", jobs[s.Job].ID, table.Batches(jobs[s.Job].Size, s.Strategy, nil), s.Finish))
	}
	return &p, list
}

// TestPlanOfFigure2: the best plan uses all of the time until 150, and there are two.
func TestPlanOfFigure2(t *testing.T) {
	second := Job{ID: "2", Size: 2, MinQuality: 0.71, Deadline: 140}
	third := Job{ID: "3", Size: 2, MinQuality: 0.5, Deadline: 150}
	mixed := table(t, figure2(), Mixed, 2)
	for _, mode := range []Mode{PrefixSafe, Literal} {
		p, got := plan(t, mixed, mode, 20, second, third)
		plan4, tie := []string{"2 [1 0 1] 100", "3 [1 1 0] 150"}, []string{"2 [0 1 1] 110", "3 [2 0 0] 150"}
		if math.Abs(p.Objective-2.84) > 1e-9 || !slices.Equal(got, plan4) && !slices.Equal(got, tie) {
			t.Errorf("%s: %v, worth %v; want %v or %v, worth 2.84", mode, got, p.Objective, plan4, tie)
		}
		third.MinQuality = 0.68 // which leaves Plan 4
		if _, got := plan(t, mixed, mode, 20, second, third); !slices.Equal(got, plan4) {
			t.Errorf("%s with a floor of .68: %v, want %v", mode, got, plan4)
		}
		third.MinQuality = 0.5
	}
	p, got := plan(t, table(t, figure2(), Uniform, 2), PrefixSafe, 20, second, third)
	if !slices.Equal(got, []string{"2 [0 0 2] 140"}) || !slices.Equal(p.Dropped, []int{1}) {
		t.Errorf("uniform: %v, dropped %v; want both for the second job and the third dropped", got, p.Dropped)
	}
}

// TestLightLoadRaisesQuality: with time to spare every job gets its best strategy.
func TestLightLoadRaisesQuality(t *testing.T) {
	table := table(t, figure2(), Mixed, 4)
	_, got := plan(t, table, PrefixSafe, 0, Job{ID: "b", Size: 4, Deadline: 5000}, Job{ID: "a", Size: 1, Deadline: 1000})
	if want := []string{"a [0 0 1] 60", "b [0 0 4] 300"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLiteralBreaksPredecessors: the program as written raises the quality of a job before
// the violator beyond that job's own deadline; prefix-safe does not.
func TestLiteralBreaksPredecessors(t *testing.T) {
	options := []Option{{"fast", 0.5, []float64{10}}, {"slow", 0.9, []float64{50}}, {"slower", 0.95, []float64{80}}}
	table := table(t, options, Mixed, 1)
	jobs := []Job{{ID: "1", Size: 1, MinQuality: 0.85, Deadline: 70}, {ID: "2", Size: 1, MinQuality: 0.5, Deadline: 90}}
	p, got := plan(t, table, Literal, 0, jobs...)
	if want := []string{"1 [0 0 1] 80", "2 [1 0 0] 90"}; !slices.Equal(got, want) || len(p.Dropped) > 0 {
		t.Errorf("literal: %v, want %v: the first is late and stays", got, want)
	}
	_, got = plan(t, table, PrefixSafe, 0, jobs...)
	if want := []string{"1 [0 1 0] 50", "2 [1 0 0] 60"}; !slices.Equal(got, want) {
		t.Errorf("prefix-safe: %v, want %v", got, want)
	}
}

// TestAFloorThatNoSplitReaches: an option is good enough, but has no batch of the job's size:
// no plan can keep the job.
func TestAFloorThatNoSplitReaches(t *testing.T) {
	table := table(t, []Option{{"a", 0.5, []float64{10, 20}}, {"b", 0.9, []float64{50}}}, Mixed, 2)
	for _, mode := range []Mode{PrefixSafe, Literal} {
		p, got := plan(t, table, mode, 0, job("1", 2, 0.8, 1000), job("2", 2, 0.7, 1000))
		if !slices.Equal(got, []string{"2 [1 1] 60"}) || !slices.Equal(p.Dropped, []int{0}) {
			t.Errorf("%s: %v, dropped %v", mode, got, p.Dropped)
		}
	}
}

// TestTimesOfAClock: seconds since 1970 have lost digits that a deadline needs.
func TestTimesOfAClock(t *testing.T) {
	table := table(t, []Option{{"a", 0.5, []float64{0.02}}}, Mixed, 1)
	const now = 1764286800
	if p, got := plan(t, table, PrefixSafe, now, job("1", 1, 0, now+0.02), job("2", 1, 0, now+0.0399)); len(got) != 1 || !slices.Equal(p.Dropped, []int{1}) {
		t.Errorf("%v, dropped %v; want the first kept and the second dropped", got, p.Dropped)
	}
}

// randomOptions are combinations of which better ones take longer, with batches that cost
// less a request than single ones.
func randomOptions(rng *rand.Rand, n, most int) []Option {
	var list []Option
	for i := range n {
		q := 0.5 + 0.4*rng.Float64()
		fixed, each := 5+60*(q-0.5)*(0.5+rng.Float64()), 1+20*(q-0.5)*(0.5+rng.Float64())
		var latency []float64
		for b := range most {
			latency = append(latency, fixed+each*float64(b+1))
		}
		list = append(list, Option{fmt.Sprint("o", i), q, latency})
	}
	return list
}

func randomJobs(rng *rand.Rand, table *Table, n int, free float64) []Job {
	var jobs []Job
	var sum float64
	for i := range n {
		size := 1 + rng.IntN(table.Sizes())
		f := table.Front(size)
		sum += f[0].Cost + rng.Float64()*(f[len(f)-1].Cost-f[0].Cost)
		best := f[len(f)-1].Value / float64(size)
		jobs = append(jobs, job(fmt.Sprint(i), size, 0.5+rng.Float64()*(best-0.5)*0.9, free+sum*(0.6+0.6*rng.Float64())))
	}
	return jobs
}

// everyStrategy enumerates all splits of a job into batches, Pareto or not.
func everyStrategy(options []Option, size int, mixing Mixing, yield func(cost, value float64)) {
	var walk func(k, left, used int, cost, value float64)
	walk = func(k, left, used int, cost, value float64) {
		if left == 0 {
			yield(cost, value)
			return
		}
		if k == len(options) {
			return
		}
		walk(k+1, left, used, cost, value)
		for n := 1; n <= min(left, len(options[k].Latency)); n++ {
			if mixing == Uniform && n < size {
				continue
			}
			walk(k+1, left-n, used+1, cost+options[k].Latency[n-1], value+float64(n)*options[k].Quality)
		}
	}
	walk(0, size, 0, 0, 0)
}

// TestTableAgainstEnumeration: the fronts are those of all splits.
func TestTableAgainstEnumeration(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		mixing := []Mixing{Mixed, Uniform}[seed%2]
		options := randomOptions(rng, 1+rng.IntN(4), 6)
		options[0].Latency = options[0].Latency[:2]
		options = append(options, Option{"long", 0.4, linear(3, 8)})
		table := table(t, options, mixing, 8)
		for size := 1; size <= 8; size++ {
			var all []solve.Point
			everyStrategy(options, size, mixing, func(cost, value float64) { all = append(all, solve.Point{Cost: cost, Value: value}) })
			slices.SortFunc(all, func(a, b solve.Point) int { return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Value, a.Value)) })
			var want []solve.Point
			for _, p := range all {
				if len(want) == 0 || p.Value > want[len(want)-1].Value+solve.Same {
					want = append(want, p)
				}
			}
			got := table.Front(size)
			if len(want) != len(got) {
				t.Fatalf("seed %d, size %d: %d strategies, by enumeration %d", seed, size, len(got), len(want))
			}
			for i, p := range got {
				var n int
				var cost, value float64
				for k, b := range table.Batches(size, i, nil) {
					if n += b; b > 0 {
						cost, value = cost+options[k].Latency[b-1], value+float64(b)*options[k].Quality
					}
				}
				if n != size || math.Abs(cost-p.Cost)+math.Abs(value-p.Value)+math.Abs(p.Cost-want[i].Cost)+math.Abs(p.Value-want[i].Value) > 1e-9 {
					t.Fatalf("seed %d, size %d: strategy %d is %v of %v, want %v", seed, size, i, p, table.Batches(size, i, nil), want[i])
				}
			}
		}
	}
}

// best is what the best plan of the jobs kept is worth, by trying all strategies in order of
// deadlines, or −∞.
func best(table *Table, jobs []Job, at float64) float64 {
	if len(jobs) == 0 {
		return 0
	}
	most := math.Inf(-1)
	j := jobs[0]
	everyStrategy(table.Options(), j.Size, table.mixing, func(cost, value float64) {
		if value/float64(j.Size) >= j.MinQuality-1e-9 && at+cost <= j.Deadline+1e-9 {
			most = max(most, value+best(table, jobs[1:], at+cost))
		}
	})
	return most
}

// TestPlansAgainstEnumeration: what is kept and what it is worth.
func TestPlansAgainstEnumeration(t *testing.T) {
	dropped := 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 6))
		mixing := []Mixing{Mixed, Uniform}[seed%2]
		table := table(t, randomOptions(rng, 2, 4), mixing, 4)
		jobs := randomJobs(rng, table, 4, 10)
		p, _ := plan(t, table, PrefixSafe, 10, jobs...)
		sorted := slices.Clone(jobs)
		slices.SortStableFunc(sorted, func(a, b Job) int {
			if a.Deadline < b.Deadline {
				return -1
			}
			return 1
		})
		var kept []Job
		for _, j := range sorted {
			if !math.IsInf(best(table, append(slices.Clone(kept), j), 10), -1) {
				kept = append(kept, j)
			}
		}
		dropped += len(p.Dropped)
		if want := best(table, kept, 10); len(kept) != len(p.Steps) || math.Abs(p.Objective-want) > 1e-9 {
			t.Fatalf("seed %d: %d jobs worth %v, by enumeration %d worth %v", seed, len(p.Steps), p.Objective, len(kept), want)
		}
		for i, s := range p.Steps {
			if jobs[s.Job].ID != kept[i].ID || s.Finish > kept[i].Deadline+1e-9 {
				t.Fatalf("seed %d: step %d is job %s, done at %v; want %s by %v", seed, i, jobs[s.Job].ID, s.Finish, kept[i].ID, kept[i].Deadline)
			}
		}
	}
	if dropped < 20 {
		t.Errorf("%d jobs were dropped: the test lost its load", dropped)
	}
}

func TestCombinations(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 3, 3: 7, 4: 15} {
		if got := Combinations(n); len(got) != want {
			t.Errorf("%d combinations of %d modalities, want %d", len(got), n, want)
		}
	}
	if got := Combinations(3); !slices.Equal(got, []uint{1, 2, 4, 3, 5, 6, 7}) {
		t.Errorf("%v", got)
	}
}

func TestBadJobs(t *testing.T) {
	table := table(t, figure2(), Mixed, 4)
	for _, c := range []struct {
		job  Job
		want string
	}{
		{Job{ID: "x", Size: 0}, `job "x": size: 0 must be at least 1`},
		{Job{ID: "x", Size: 5}, `job "x": size: 5 is above the longest batch of any option, 4; split the job`},
		{Job{ID: "x", Size: 1, MinQuality: 0.81}, `job "x": min_quality: 0.81 is above every option; the best has 0.8`},
		{Job{ID: "x", Size: 1, Deadline: math.NaN()}, `job "x": deadline: NaN must be a number from -1e+15 to 1e+15`},
	} {
		if err := table.Check(&c.job); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestPlannerDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	table := table(t, randomOptions(rng, 7, 16), Mixed, 16)
	jobs := randomJobs(rng, table, 20, 0)
	for _, mode := range []Mode{PrefixSafe, Literal} {
		planner, err := NewPlanner(table, mode)
		if err != nil {
			t.Fatal(err)
		}
		var p Plan
		planner.Plan(0, jobs, &p)
		if n := testing.AllocsPerRun(20, func() { planner.Plan(0, jobs, &p) }); n != 0 {
			t.Errorf("%s: %v allocations", mode, n)
		}
	}
}

// BenchmarkPlan plans drawn queues, one after the other.
//
//	go test ./router/modality -bench Plan -benchmem
func BenchmarkPlan(b *testing.B) {
	for _, size := range [][2]int{{20, 3}, {20, 7}, {50, 3}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			type queue struct {
				planner *Planner
				jobs    []Job
			}
			var all []queue
			for seed := range uint64(64) {
				rng := rand.New(rand.NewPCG(seed, 7))
				table := table(b, randomOptions(rng, size[1], 20), Mixed, 20)
				planner, err := NewPlanner(table, PrefixSafe)
				if err != nil {
					b.Fatal(err)
				}
				all = append(all, queue{planner, randomJobs(rng, table, size[0], 0)})
			}
			var p Plan
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q := all[i%len(all)]
				q.planner.Plan(0, q.jobs, &p)
			}
		})
	}
}

// BenchmarkTable makes all offline fronts of 1 to 64 requests.
//
//	go test ./router/modality -bench Table
func BenchmarkTable(b *testing.B) {
	for _, options := range []int{3, 7} {
		b.Run(fmt.Sprint(options), func(b *testing.B) {
			list := randomOptions(rand.New(rand.NewPCG(1, 8)), options, 64)
			for b.Loop() {
				table(b, list, Mixed, 64)
			}
		})
	}
}
