package modality

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gearshift/router/nn"
)

// network is one of random weights, or with a bias alone that favours an action.
func network(t testing.TB, favoured int) *nn.MLP {
	t.Helper()
	m, err := nn.New(Observed, 16, Actions)
	if err != nil {
		t.Fatal(err)
	}
	if favoured < 0 {
		m.Randomise(rand.New(rand.NewPCG(1, 1)))
	} else {
		m.Biases[1][favoured] = 1
	}
	return m
}

func learnedOf(t testing.TB, table *Table, m *nn.MLP) *Learned {
	t.Helper()
	p, err := NewLearned(table, Network{Weights: m, Cautions: Always(2)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLearnedActions: what each action makes of a job of two requests, with a floor below
// everything and time for all.
func TestLearnedActions(t *testing.T) {
	table := table(t, figure2(), Mixed, 2)
	jobs := []Job{{ID: "1", Size: 2, MinQuality: 0.5, Deadline: 1000}, {ID: "2", Size: 2, MinQuality: 0.71, Deadline: 2000}}
	for action, want := range []string{
		ActPlan:        "1 [0 0 2] 120",
		ActFastest:     "1 [2 0 0] 40",
		ActFastest + 1: "1 [0 2 0] 60", // at most 60
		ActFastest + 2: "1 [1 0 1] 80",
		ActFastest + 3: "1 [0 1 1] 90", // at most 100
		ActBest:        "1 [0 0 2] 120",
	} {
		got, dropped := does(table, learnedOf(t, table, network(t, action)), 0, jobs)
		if len(got) != 2 || got[0] != want || len(dropped) != 0 {
			t.Errorf("action %d: %v, dropped %v; want %s first", action, got, dropped, want)
		}
	}
	got, dropped := does(table, learnedOf(t, table, network(t, ActDrop)), 0, jobs)
	if len(got) != 0 || !slices.Equal(dropped, []int{0, 1}) {
		t.Errorf("dropping: %v, dropped %v", got, dropped)
	}
}

// TestLearnedKeepsFloors: whatever a network says, each job keeps its floor and is there once.
func TestLearnedKeepsFloors(t *testing.T) {
	departed := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 17))
		table := table(t, randomOptions(rng, 3, 8), Mixed, 8)
		jobs := randomJobs(rng, table, 8, 0)
		m := network(t, -1)
		m.Randomise(rng)
		p := learnedOf(t, table, m)
		p.Foresee(Arrivals{Rate: rng.Float64(), Variance: 50 * rng.Float64(), Patience: 100, Spread: rng.Float64()})
		var plan, advice Plan
		p.Plan(0, jobs, &plan)
		p.Foresighted.Plan(0, jobs, &advice)
		if len(plan.Steps)+len(plan.Dropped) != len(jobs) {
			t.Fatalf("seed %d: %d jobs run and %d are dropped, of %d", seed, len(plan.Steps), len(plan.Dropped), len(jobs))
		}
		seen := slices.Clone(plan.Dropped)
		for _, s := range plan.Steps {
			seen = append(seen, s.Job)
			j := &jobs[s.Job]
			if quality := table.Front(j.Size)[s.Strategy].Value / float64(j.Size); quality < j.MinQuality-1e-9 {
				t.Errorf("seed %d: job %s has quality %v, below its floor %v", seed, j.ID, quality, j.MinQuality)
			}
		}
		if slices.Sort(seen); len(slices.Compact(seen)) != len(jobs) {
			t.Errorf("seed %d: a job is there twice", seed)
		}
		if fmt.Sprint(plan.Steps) != fmt.Sprint(advice.Steps) {
			departed++
		}
	}
	if departed < 10 {
		t.Errorf("%d of 40 plans depart from the advice: the test lost its networks", departed)
	}
}

// TestLearnedFallsBackOnThePlan: beyond what training has met, and where a value is not
// finite.
func TestLearnedFallsBackOnThePlan(t *testing.T) {
	table := table(t, figure2(), Mixed, 2)
	jobs := []Job{{ID: "1", Size: 2, MinQuality: 0.5, Deadline: 1000}}
	seen := make([]float32, Observed)
	for i := range seen {
		seen[i] = 100
	}
	damaged := network(t, ActFastest)
	damaged.Biases[1][ActDrop] = float32(math.NaN())
	for name, c := range map[string]struct {
		network Network
		seen    float32
		want    string
	}{
		"met":     {Network{Weights: network(t, ActFastest), Cautions: Always(2)}, 100, "1 [2 0 0] 40"},
		"beyond":  {Network{Weights: network(t, ActFastest), Cautions: Always(2)}, 0, "1 [0 0 2] 120"},
		"damaged": {Network{Weights: damaged, Cautions: Always(2)}, 100, "1 [0 0 2] 120"},
	} {
		c.network.Seen = slices.Clone(seen)
		c.network.Seen[Actions+6] = c.seen // a queue takes some time
		for i := range 10 {
			c.network.Seen[Actions+6+i] = c.seen
		}
		p, err := NewLearned(table, c.network)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := does(table, p, 0, jobs); fmt.Sprint(got) != "["+c.want+"]" {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestNetworksThatDoNotFit(t *testing.T) {
	table := table(t, figure2(), Mixed, 1)
	small, err := nn.New(3, 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewLearned(table, Network{Weights: small}); err == nil || !strings.Contains(err.Error(), "maps 3 inputs to 2 values; want") {
		t.Errorf("%v", err)
	}
	if _, err := NewLearned(table, Network{Weights: network(t, -1), Seen: []float32{1}}); err == nil || !strings.Contains(err.Error(), "range of 1 inputs") {
		t.Errorf("%v", err)
	}
}

// TestObservationsAreRelative: of a model and jobs that are three times as slow, the
// observation is the same.
func TestObservationsAreRelative(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	options := randomOptions(rng, 3, 8)
	var observed [2][]float32
	for i, times := range []float64{1, 3} {
		slower := slices.Clone(options)
		for k := range slower {
			slower[k].Latency = slices.Clone(slower[k].Latency)
			for n := range slower[k].Latency {
				slower[k].Latency[n] *= times
			}
		}
		table := table(t, slower, Mixed, 8)
		jobs := randomJobs(rand.New(rand.NewPCG(6, 6)), table, 6, 0)
		for k := range jobs {
			jobs[k].Deadline = times * float64(100+40*k)
		}
		c := NewChooser(table, Always(2))
		c.Foresee(Arrivals{Rate: 0.5, Recent: 0.7, Variance: 20 * times, Largest: 40 * times, Patience: 200 * times, Spread: 0.1})
		var plan Plan
		c.Plan(0, jobs, &plan)
		if len(plan.Steps) < 3 {
			t.Fatalf("%d jobs are kept: the test lost its queue", len(plan.Steps))
		}
		observed[i] = slices.Clone(c.Observe(0, jobs, &plan))
	}
	if len(observed[0]) != Observed {
		t.Fatalf("%d numbers, want %d", len(observed[0]), Observed)
	}
	for i := range observed[0] {
		if math.Abs(float64(observed[0][i]-observed[1][i])) > 1e-5 {
			t.Errorf("number %d: %v and %v", i, observed[0][i], observed[1][i])
		}
	}
}

func TestLearnedDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	table := table(t, randomOptions(rng, 7, 16), Mixed, 16)
	jobs := randomJobs(rng, table, 20, 0)
	for _, favoured := range []int{-1, ActDrop} {
		p := learnedOf(t, table, network(t, favoured))
		p.Foresee(Arrivals{Rate: 0.5, Variance: 10, Patience: 200})
		var plan Plan
		p.Plan(0, jobs, &plan)
		if n := testing.AllocsPerRun(20, func() { p.Plan(0, jobs, &plan) }); n != 0 {
			t.Errorf("%v allocations, action %d", n, favoured)
		}
	}
}
