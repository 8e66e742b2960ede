package training

import (
	"math"
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// twoInputs is a model of two inputs: both take eleven times as long as the first alone.
func twoInputs() []modality.Option {
	list := []modality.Option{{Name: "audio", Quality: 0.67}, {Name: "video", Quality: 0.70}, {Name: "both", Quality: 0.80}}
	for i, each := range []float64{3, 20, 100. / 3} {
		for n := range 16 {
			list[i].Latency = append(list[i].Latency, each*float64(n+1))
		}
	}
	return list
}

// minute draws a minute's jobs for the worker of two inputs.
func minute(t *testing.T, seed uint64) jobsEpisode {
	t.Helper()
	table, err := modality.NewTable(twoInputs(), modality.Mixed, 16)
	if err != nil {
		t.Fatal(err)
	}
	l := workloads.JobLoad{Length: time.Minute, Least: 5, Most: 90, Mean: 1, Spread: 6, Largest: 16, Deadline: time.Second, FloorLow: 0.67, FloorHigh: 0.8}
	arrivals, err := l.Draw(seed)
	if err != nil {
		t.Fatal(err)
	}
	return jobsEpisode{Table: table, Options: twoInputs(), Arrivals: arrivals, Cautions: modality.Always(2)}
}

func minutes(t *testing.T, limit int) *jobsEnvironment {
	return &jobsEnvironment{limit: limit, draw: func(seed uint64) (jobsEpisode, time.Duration, error) { return minute(t, seed), time.Second, nil }}
}

// episode plays the actions by turns, and returns what they earn and all observations.
func episode(t *testing.T, e *jobsEnvironment, seed uint64, actions ...int) (worth float64, decisions int, seen []float32) {
	t.Helper()
	seen = slices.Clone(e.Reset(seed))
	for {
		earned, elapsed, truncated := e.decide(actions[decisions%len(actions)])
		if elapsed < 0 {
			t.Fatalf("decision %d, after %v", decisions, elapsed)
		}
		decisions++
		worth += earned
		seen = append(seen, e.observation...)
		if truncated {
			break
		}
	}
	if e.Err() != nil {
		t.Fatal(e.Err())
	}
	return worth, decisions, seen
}

// TestRewardsOfJobsAddUp: with the plan's action each time, an episode is what foresight does, and
// its rewards are what all its jobs are worth.
func TestRewardsOfJobsAddUp(t *testing.T) {
	e := minutes(t, 0)
	for seed := range uint64(5) {
		worth, _, _ := episode(t, e, seed, modality.ActPlan)
		var want float64
		x := minute(t, seed)
		r, err := x.play(modality.NewForesighted(x.Table, 2), func(o env.JobOutcome) { want += o.Worth() })
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

// TestEpisodesOfJobsRepeat: the same seed and actions give the same observations, whatever was
// played before; the limit truncates.
func TestEpisodesOfJobsRepeat(t *testing.T) {
	e := minutes(t, 50)
	actions := []int{modality.ActPlan, modality.ActFastest, modality.ActBest, modality.ActDrop, modality.ActFastest + 2}
	worth, decisions, seen := episode(t, e, 1, actions...)
	episode(t, e, 2, modality.ActDrop)
	again, _, seenAgain := episode(t, e, 1, actions...)
	if worth != again || !slices.Equal(seen, seenAgain) || decisions != 50 {
		t.Errorf("%d decisions, worth %v and %v", decisions, worth, again)
	}
}

// TestDroppingJobsCosts: every job that the action drops costs its requests.
func TestDroppingJobsCosts(t *testing.T) {
	e := minutes(t, 0)
	worth, _, _ := episode(t, e, 3, modality.ActDrop)
	requests := 0
	for _, a := range minute(t, 3).Arrivals {
		requests += a.Size
	}
	if worth != -float64(requests) {
		t.Errorf("%v for %d requests dropped", worth, requests)
	}
}

// TestJobsEnvironmentKeepsErrors: a load that cannot be drawn ends the episode.
func TestJobsEnvironmentKeepsErrors(t *testing.T) {
	e := &jobsEnvironment{draw: func(uint64) (jobsEpisode, time.Duration, error) { return jobsEpisode{}, time.Second, nil }}
	if e.Reset(1); e.Err() == nil || !e.Step(0).Truncated {
		t.Errorf("error %v", e.Err())
	}
}
