package training

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/rl"
	"gearshift/router/nn"
	"gearshift/router/policy"
	"gearshift/workloads"
)

func storePath(t *testing.T) string { return filepath.Join(t.TempDir(), "policies.db") }

// What a deviation takes is chosen by what it comes to: the least where the networks' values
// say nothing against the advice, or are not asked, beyond what training has seen; the least
// that keeps to it where they are worth nothing.
func TestDeparturesAreChosenByValidation(t *testing.T) {
	for _, test := range []struct {
		bias float32
		seen []float32
		want deviation
	}{
		{0, nil, deviation{0.02, 0.5}}, {0.05, nil, deviation{0.04, 1.5}}, {0.1, nil, deviation{0.16, 0.5}},
		{0.1, make([]float32, 8), deviation{0.02, 0.5}},
	} {
		r, err := newRun(Options{Scenario: "tiny", Preset: "quick", Store: storePath(t), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range r.members {
			m.result.Network = leading(t, r, test.bias*float32(1+i))
		}
		r.meta.Seen = test.seen
		tried := 0
		r.judge.Progress = func(done, total int) {
			if tried++; done != tried || total != 10 {
				t.Errorf("%d of %d deviations are tried, and %d were", done, total, tried)
			}
		}
		if _, err := r.network(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tried != 10 {
			t.Errorf("it knows %d deviations", tried)
		}
		if got := (deviation{r.meta.AdviceMargin, r.meta.Caution}); got != test.want {
			t.Errorf("values that are %v off, seen %v: %+v, want %+v", test.bias, test.seen, got, test.want)
		}
	}
}

// For other objectives than mean utility a deviation must be above the advice alone by more than chance, and of
// such the best is taken.
func TestOnlySureDeparturesAreTaken(t *testing.T) {
	scores := [][]float64{
		{0.2, 0.4, 0.3, 0.5},     // the advice alone
		{0.3, 0.5, 0.4, 0.4},     // higher in the mean, by chance
		{0.21, 0.41, 0.31, 0.52}, // surely higher
		{0.22, 0.42, 0.32, 0.53}, // and more so
		{0.21, 0.41, 0.32, 0.53}, // surely, but less
	}
	next := 0
	better := surelyHigher(func(context.Context, *nn.MLP, policy.Trust) ([]float64, error) {
		next++
		return scores[next-1], nil
	})
	var taken []bool
	for range scores {
		best, err := better(t.Context(), nil, policy.Trust{})
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, best)
	}
	if want := []bool{true, false, true, true, false}; !slices.Equal(taken, want) {
		t.Errorf("taken %v, want %v", taken, want)
	}
}

// For windows, networks that would send all to the small size are not followed anywhere.
func TestAPolicyMayKeepToTheAdvice(t *testing.T) {
	r, err := newRun(Options{Scenario: "tiny", Preset: "quick", Store: storePath(t), Seed: 1, Objective: &evaluation.NearPeak})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.members {
		m.result.Network = leading(t, r, 10)
	}
	if _, err := r.network(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := r.adviceAlone(r.deviations())
	if got := (deviation{r.meta.AdviceMargin, r.meta.Caution}); got != want || want.caution == 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// leading is a network that says, whatever it observes, that the small size is worth more
// by lead.
func leading(t *testing.T, r *run, lead float32) *nn.MLP {
	t.Helper()
	network, err := nn.New(r.meta.Spec.Dim(), 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	network.Biases[1][0] = lead
	return network
}

// No two networks of a run meet the same episodes, in training or fine-tuned on a log;
// the first one's are those of a run of one network.
func TestMembersHaveEpisodesOfTheirOwn(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(3) {
		for number := range 4 {
			m := &member{number: number}
			for episode := range uint64(21) {
				got := m.episodeSeed(seed, episode)
				if seen[got] || got>>56 != uint64(workloads.Training) {
					t.Errorf("seed %d, network %d, episode %d: %#x is another's, or not of training", seed, number, episode, got)
				}
				seen[got] = true
				if want := workloads.Seed(workloads.Training, seed<<24|episode); number == 0 && got != want {
					t.Errorf("seed %d, episode %d: %#x, want %#x", seed, episode, got, want)
				}
			}
		}
	}
	r, err := newRun(Options{Scenario: "tiny", Preset: "quick", Seed: 1, Steps: 10, Store: storePath(t), Uncompared: true})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := r.complete(t.Context(), io.Discard, &said); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(said.String(), "\njudging the policy on validation seeds\n") {
		t.Errorf("it says %q, and then nothing for as long as the policy is judged", said.String())
	}
	if a, b := r.members[0].envs[0].Arrival(), r.members[1].envs[0].Arrival(); a == b {
		t.Errorf("request 10 of both networks' first episode is %+v", a)
	}
	onLog := &logRun{run: r} // which lacks requests to replay
	_, first, errFirst := onLog.simulated(r.members[0])
	_, second, err := onLog.simulated(r.members[1])
	if err := errors.Join(errFirst, err); err != nil || first(0) == second(0) {
		t.Errorf("beside a log both networks meet the episode %#x, %v", first(0), err)
	}
}

// What one network has not met is beyond the mean of all.
func TestTheRangeOfSeveralNetworks(t *testing.T) {
	of := func(seen ...[]float32) *run {
		r := &run{}
		for _, x := range seen {
			r.members = append(r.members, &member{result: rl.Result{Seen: x}})
		}
		return r
	}
	if got := of([]float32{1, 5, 2}, []float32{2, 3, 2}).seen(); !slices.Equal(got, []float32{1, 3, 2}) {
		t.Errorf("all have met up to %v", got)
	}
	if got := of([]float32{1, 5, 2}, nil).seen(); got != nil {
		t.Errorf("one explores, and all have met up to %v", got)
	}
}
