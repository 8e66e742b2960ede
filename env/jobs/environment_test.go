package jobs

import (
	"math"
	"slices"
	"testing"
	"time"

	"gearshift/router/modality"
	"gearshift/workloads"
)

// environment draws the load's jobs for the worker of two inputs.
func environment(t *testing.T, limit int) (*Environment, *modality.Table) {
	t.Helper()
	table, err := modality.NewTable(options(16), modality.Mixed, 16)
	if err != nil {
		t.Fatal(err)
	}
	l := load()
	l.Length, l.Most = time.Minute, 90
	return &Environment{Limit: limit, Draw: func(seed uint64) (Episode, error) {
		arrivals, err := l.Draw(seed)
		return Episode{Table: table, Options: options(16), Arrivals: arrivals, Cautions: modality.Always(2)}, err
	}}, table
}

// episode plays the actions by turns, and returns what they earn and all observations.
func episode(t *testing.T, e *Environment, seed uint64, actions ...int) (worth float64, decisions int, seen []float32) {
	t.Helper()
	seen = slices.Clone(e.Reset(seed))
	for {
		s := e.Step(actions[decisions%len(actions)])
		if s.Decision != decisions || s.Elapsed < 0 {
			t.Fatalf("decision %d of %d, after %v", s.Decision, decisions, s.Elapsed)
		}
		decisions++
		worth += s.Worth
		seen = append(seen, s.Observation...)
		if s.Truncated {
			break
		}
	}
	if e.Err() != nil {
		t.Fatal(e.Err())
	}
	return worth, decisions, seen
}

// TestRewardsAddUp: with the plan's action each time, an episode is what foresight does, and
// its rewards are what all its jobs are worth.
func TestRewardsAddUp(t *testing.T) {
	e, table := environment(t, 0)
	for seed := range uint64(5) {
		worth, _, _ := episode(t, e, seed, modality.ActPlan)
		l := load()
		l.Length, l.Most = time.Minute, 90
		var want float64
		r, err := Run(Config{Dispatcher: modality.NewDispatcher(table, modality.NewForesighted(table, 2)), Options: options(16)},
			draw(t, l, seed), func(o Outcome) { want += o.Worth() })
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(worth-want) > 1e-6 {
			t.Errorf("seed %d: rewards add up to %v, the jobs are worth %v", seed, worth, want)
		}
		if r.Dropped == 0 {
			t.Errorf("seed %d: nothing is dropped: the test lost its load", seed)
		}
	}
}

// TestEpisodesRepeat: the same seed and actions give the same observations, whatever was
// played before; the limit truncates.
func TestEpisodesRepeat(t *testing.T) {
	e, _ := environment(t, 50)
	actions := []int{modality.ActPlan, modality.ActFastest, modality.ActBest, modality.ActDrop, modality.ActFastest + 2}
	worth, decisions, seen := episode(t, e, 1, actions...)
	episode(t, e, 2, modality.ActDrop)
	again, _, seenAgain := episode(t, e, 1, actions...)
	if worth != again || !slices.Equal(seen, seenAgain) || decisions != 50 {
		t.Errorf("%d decisions, worth %v and %v", decisions, worth, again)
	}
}

// TestDroppingCosts: every job that the action drops costs its requests.
func TestDroppingCosts(t *testing.T) {
	e, _ := environment(t, 0)
	worth, _, _ := episode(t, e, 3, modality.ActDrop)
	l := load()
	l.Length, l.Most = time.Minute, 90
	requests := 0
	for _, a := range draw(t, l, 3) {
		requests += a.Size
	}
	if worth != -float64(requests) {
		t.Errorf("%v for %d requests dropped", worth, requests)
	}
}

// TestEnvironmentKeepsErrors: a load that cannot be drawn ends the episode.
func TestEnvironmentKeepsErrors(t *testing.T) {
	e := &Environment{Draw: func(uint64) (Episode, error) { return Episode{Arrivals: []workloads.JobArrival{}}, nil }}
	if e.Reset(1); e.Err() == nil || !e.Step(0).Truncated {
		t.Errorf("error %v", e.Err())
	}
}
