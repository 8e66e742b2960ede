package modality

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestForesightHoldsBack: a job alone gets its best strategy where nothing is expected, and
// a faster one where what is expected would be late.
func TestForesightHoldsBack(t *testing.T) {
	table := table(t, figure2(), Mixed, 1)
	p := NewForesighted(table, 0)
	jobs := []Job{job("1", 1, 0.5, 100)}
	for _, c := range []struct {
		rate float64
		want string
	}{
		{0, "[1 [0 0 1] 60]"},
		{0.8, "[1 [0 0 1] 60]"},  // of 640 to come within 800, due by 900
		{1.08, "[1 [0 1 0] 30]"}, // 864 leave 36
		{2, "[1 [1 0 0] 20]"},    // more than there is time for
	} {
		p.Foresee(Arrivals{Rate: c.rate, Patience: 100})
		if got, _ := does(table, p, 0, jobs); fmt.Sprint(got) != c.want {
			t.Errorf("rate %v: %v, want %s", c.rate, got, c.want)
		}
	}
	p = NewForesighted(table, 2)
	p.Foresee(Arrivals{Rate: 0.8, Variance: 40, Patience: 100}) // 640 ± 2·179 by 900
	if got, _ := does(table, p, 0, jobs); fmt.Sprint(got) != "[1 [1 0 0] 20]" {
		t.Errorf("with caution: %v", got)
	}
}

// TestForesightCountsTheLargestJob: with the arrivals known exactly, caution is about the
// largest job alone.
func TestForesightCountsTheLargestJob(t *testing.T) {
	table := table(t, figure2(), Mixed, 1)
	p := NewForesighted(table, 4)
	jobs := []Job{{ID: "1", Size: 1, MinQuality: 0.5, Deadline: 100}}
	for largest, want := range map[float64]string{0: "[1 [0 0 1] 60]", 50: "[1 [0 0 1] 60]", 80: "[1 [0 1 0] 30]", 100: "[1 [1 0 0] 20]"} {
		p.Foresee(Arrivals{Rate: 0.2, Largest: largest, Patience: 100}) // the window of 12.5 is due by 112.5
		if got, _ := does(table, p, 0, jobs); fmt.Sprint(got) != want {
			t.Errorf("largest %v: %v, want %s", largest, got, want)
		}
	}
}

// TestForesightDropsNoMore: what is expected holds jobs back, and never has one dropped; all
// deadlines are kept.
func TestForesightDropsNoMore(t *testing.T) {
	held := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 31))
		table := table(t, randomOptions(rng, 3, 8), Mixed, 8)
		jobs := randomJobs(rng, table, 8, 0)
		planner, err := NewPlanner(table, PrefixSafe)
		if err != nil {
			t.Fatal(err)
		}
		p := NewForesighted(table, 2)
		p.Foresee(Arrivals{Rate: 1.5 * rng.Float64(), Variance: 50 * rng.Float64(), Patience: 50 + 200*rng.Float64()})
		var with, without Plan
		p.Plan(0, jobs, &with)
		planner.Plan(0, jobs, &without)
		if len(with.Dropped) != len(without.Dropped) || with.Objective > without.Objective+1e-9 {
			t.Fatalf("seed %d: %d dropped and worth %v, without foresight %d and %v", seed, len(with.Dropped), with.Objective, len(without.Dropped), without.Objective)
		}
		for _, s := range with.Steps {
			if s.Finish > jobs[s.Job].Deadline+1e-9 {
				t.Fatalf("seed %d: job %s is late", seed, jobs[s.Job].ID)
			}
		}
		if with.Objective < without.Objective-1e-9 {
			held++
		}
	}
	if held < 10 {
		t.Errorf("%d of 60 plans are held back: the test lost its load", held)
	}
}

func TestForesightDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	table := table(t, randomOptions(rng, 7, 16), Mixed, 16)
	jobs := randomJobs(rng, table, 20, 0)
	p := NewForesighted(table, 2)
	p.Foresee(Arrivals{Rate: 0.5, Variance: 10, Patience: 200})
	var plan Plan
	p.Plan(0, jobs, &plan)
	if n := testing.AllocsPerRun(20, func() { p.Plan(0, jobs, &plan) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestArrivalsAreEstimated: the rate, variance and patience of jobs that come in a Poisson
// process.
func TestArrivalsAreEstimated(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var e estimate
	var rate, variance float64
	const every, n = 4.0, 40_000
	now := 0.0
	for i := range n {
		now += every * rng.ExpFloat64()
		e.add(now, come{size: 1, patience: 500, work: 1 + 2*rng.Float64()})
		if i >= n/2 {
			a := e.at(now)
			rate, variance = rate+a.Rate/(n/2), variance+a.Variance/(n/2)
		}
	}
	// Work is uniform from 1 to 3: its mean is 2 and its mean square 13/3. An arrival sees
	// itself too, which is 1 in 1,250.
	if math.Abs(rate/(2/every)-1) > 0.02 || math.Abs(variance/(13./3/every)-1) > 0.02 || math.Abs(e.at(now).Patience-500) > 1e-6 {
		t.Errorf("rate %.4f, variance %.4f, patience %.1f", rate, variance, e.at(now).Patience)
	}
	if a := e.at(now); a.Largest < 2.5 || a.Largest > 3 {
		t.Errorf("the largest job is %v, want close to 3", a.Largest)
	}
	if later := e.at(now + 50_000); later.Rate > 1e-3*rate {
		t.Errorf("rate %v long after the last arrival", later.Rate)
	}
}

// TestFirstArrivalsCount: the averages of the first moments are those of the time since the
// first arrival, not of a long time in which there was nothing.
func TestFirstArrivalsCount(t *testing.T) {
	var e estimate
	for i := range 250 {
		e.add(float64(4*i), come{size: 1, patience: 500, work: 2})
	}
	if a := e.at(1000); math.Abs(a.Rate-0.5) > 0.02 || math.Abs(a.Recent-0.5) > 0.02 || math.Abs(a.Variance-1) > 0.04 {
		t.Errorf("after two patiences: rate %.3f, recently %.3f, variance %.3f; want 0.5, 0.5 and 1", a.Rate, a.Recent, a.Variance)
	}
}
