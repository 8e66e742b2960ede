package modality

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(t testing.TB, table *Table, stop Stop) *Random {
	t.Helper()
	p, err := NewRandom(table, stop, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// does is what a policy does with the jobs: each step's strategy and finish.
func does(table *Table, p Policy, free float64, jobs []Job) (list []string, dropped []int) {
	var plan Plan
	p.Plan(free, jobs, &plan)
	for _, s := range plan.Steps {
		list = append(list, fmt.Sprintf("%s %v %g", jobs[s.Job].ID, table.Batches(jobs[s.Job].Size, s.Strategy, nil), s.Finish))
	}
	return list, plan.Dropped
}

// TestPoliciesOnFigure2: the paper's Plan 1 for its second job is not open to anybody, as
// its quality is below the floor; the fastest above the floor is both and audio.
func TestPoliciesOnFigure2(t *testing.T) {
	table := table(t, figure2(), Mixed, 2)
	jobs := []Job{job("2", 2, 0.71, 140), job("3", 2, 0.5, 150)}
	for _, c := range []struct {
		name    string
		policy  Policy
		want    []string
		dropped []int
	}{
		{"aggressive", NewAggressive(table), []string{"2 [1 0 1] 100", "3 [2 0 0] 140"}, nil},
		{"agnostic", NewAgnostic(table), []string{"2 [0 0 2] 140", "3 [0 0 2] 260"}, nil},
		{"agnostic with admission", NewDropping(table), []string{"2 [0 0 2] 140"}, []int{1}},
		// The wait before the third job, 140, is within its deadline at once: it is late.
		{"random by wait", random(t, table, StopByWait), []string{"2 [0 0 2] 140", "3 [0 0 2] 260"}, nil},
		{"random by finish", random(t, table, StopByFinish), []string{"2 [1 0 1] 100", "3 [2 0 0] 140"}, nil},
	} {
		got, dropped := does(table, c.policy, 20, jobs)
		if !slices.Equal(got, c.want) || !slices.Equal(dropped, c.dropped) {
			t.Errorf("%s: %v, dropped %v; want %v, %v", c.name, got, dropped, c.want, c.dropped)
		}
	}
}

// TestRandomDropsTheViolator: where all have been sped up and it is late nonetheless.
func TestRandomDropsTheViolator(t *testing.T) {
	table := table(t, figure2(), Mixed, 2)
	jobs := []Job{job("1", 2, 0.5, 100), job("2", 2, 0.5, 101), job("3", 1, 0.5, 119)}
	for _, stop := range []Stop{StopByWait, StopByFinish} {
		got, dropped := does(table, random(t, table, stop), 50, jobs)
		if len(got) == 0 || got[0] != "1 [2 0 0] 90" || !slices.Contains(dropped, 1) && stop == StopByFinish {
			t.Errorf("%s: %v, dropped %v", stop, got, dropped)
		}
	}
}

// TestOrderOfPolicies: with every deadline kept, no policy keeps more quality than the
// planner, on drawn queues.
func TestOrderOfPolicies(t *testing.T) {
	better := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		table := table(t, randomOptions(rng, 3, 8), Mixed, 8)
		jobs := randomJobs(rng, table, 10, 0)
		planner, err := NewPlanner(table, PrefixSafe)
		if err != nil {
			t.Fatal(err)
		}
		var best Plan
		planner.Plan(0, jobs, &best)
		for _, p := range []Policy{NewAggressive(table), random(t, table, StopByFinish)} {
			var plan Plan
			p.Plan(0, jobs, &plan)
			late := slices.ContainsFunc(plan.Steps, func(s Step) bool { return s.Finish > jobs[s.Job].Deadline+1e-9 })
			if !late && len(plan.Steps) == len(best.Steps) && plan.Objective > best.Objective+1e-9 {
				t.Errorf("seed %d: %T keeps %v, the planner %v", seed, p, plan.Objective, best.Objective)
			}
			if best.Objective > plan.Objective+1e-9 {
				better++
			}
		}
	}
	if better < 60 {
		t.Errorf("the planner is ahead in %d of 120 comparisons", better)
	}
}

// TestSplits counts the strategies of which a table keeps the best (MOSEL-4): 231 and 6 for three options,
// 230,230 for the seven combinations of three modalities, against an enumeration where that is quick.
func TestSplits(t *testing.T) {
	options := func(n int) (list []Option) {
		for i := range n {
			latency := make([]float64, 20)
			for k := range latency {
				latency[k] = float64((i + 1) * (k + 1))
			}
			list = append(list, Option{Name: fmt.Sprint(i), Quality: float64(i+1) / 10, Latency: latency})
		}
		return list
	}
	var enumerate func(size, options int) int
	enumerate = func(size, options int) (n int) {
		if options == 1 {
			return 1
		}
		for k := range size + 1 {
			n += enumerate(size-k, options-1)
		}
		return n
	}
	for _, c := range []struct{ size, options, want int }{{20, 3, 231}, {2, 3, 6}, {20, 7, 230_230}, {1, 4, 4}, {5, 1, 1}} {
		mixed := table(t, options(c.options), Mixed, c.size)
		if got := mixed.Splits(c.size); got != float64(c.want) || enumerate(c.size, c.options) != c.want {
			t.Errorf("%d requests, %d options: %v splits, %d enumerated; want %d", c.size, c.options, got, enumerate(c.size, c.options), c.want)
		}
		if n := len(mixed.Front(c.size)); n > c.want {
			t.Errorf("%d requests, %d options: %d strategies are worth considering, of %d", c.size, c.options, n, c.want)
		}
		if got := table(t, options(c.options), Uniform, c.size).Splits(c.size); got != float64(c.options) {
			t.Errorf("%d options, uniform: %v", c.options, got)
		}
	}
	if got := table(t, options(3), Mixed, 20).Within(0b101).Splits(20); got != 21 {
		t.Errorf("%v splits among two of three options, want 21", got)
	}
}
