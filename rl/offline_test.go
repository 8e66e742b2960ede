package rl_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/rl"
	"gearshift/rl/rltest"
	"gearshift/router/nn"
)

// bandit gives each action's worth at once.
type bandit struct {
	worth     []float64
	n         int
	completed [1]rl.Completion
}

func (b *bandit) Reset(uint64) []float32 { b.n = 0; return []float32{1} }

func (b *bandit) Step(action int) rl.Step {
	b.completed[0] = rl.Completion{Decision: b.n, Utility: b.worth[action]}
	b.n++
	return rl.Step{Observation: []float32{1}, Elapsed: time.Second, Truncated: b.n == 50, Completed: b.completed[:]}
}

// recording holds the decisions of one episode after another.
type recording struct {
	episodes [][]record
	episode  []record
	at       int
}

type record struct {
	action  int
	utility float64
	unknown bool
}

func (t *recording) Episodes() int { return len(t.episodes) }
func (t *recording) Reset(n uint64) []float32 {
	t.episode, t.at = t.episodes[n], 0
	return []float32{1}
}
func (t *recording) Action() int { return t.episode[t.at].action }
func (t *recording) Step(int) rl.Step {
	r := t.episode[t.at]
	s := rl.Step{Observation: []float32{1}, Elapsed: time.Second, Truncated: t.at+1 == len(t.episode)}
	if !r.unknown {
		s.Completed = []rl.Completion{{Decision: t.at, Utility: r.utility}}
	}
	t.at++
	return s
}

// offlineRun learns from the records beside a simulator in which actions are worth
// 0.5, 0.4 and 0.3.
func offlineRun(t *testing.T, centred bool, episodes ...[]record) rl.Offline {
	t.Helper()
	cfg := rltest.Config()
	cfg.CentreRewards, cfg.Discount, cfg.WeightAverage = centred, rl.Discount{PerStep: 0.01}, 0
	cfg.FinalLearningRate = 0.02
	learner, err := rltest.NewLinear(cfg, 1, 3, rand.New(rl.Weights.PCG(1)))
	if err != nil {
		t.Fatal(err)
	}
	return rl.Offline{
		Config: cfg, Seed: 1, Learner: learner, Recording: &recording{episodes: episodes},
		Simulated: &bandit{worth: []float64{0.5, 0.4, 0.3}}, Decisions: 300, Epsilon: 0.5,
		EpisodeSeed: func(episode uint64) uint64 { return episode }, Steps: 3000,
	}
}

func valuesOf(m *nn.MLP) []float32 {
	values := make([]float32, m.Outputs())
	m.Forward(values, []float32{1}, make([]float32, m.Scratch()))
	return values
}

// What the record says of an action counts as much as the simulator; of what it
// never tried, the simulator alone decides.
func TestOfflineLearnsFromBoth(t *testing.T) {
	var log []record
	for range 100 {
		log = append(log, record{0, 0.1, false}, record{1, 0.4, false}, record{1, 9, true})
	}
	o := offlineRun(t, false, log, []record{{1, 0.4, false}})
	result, err := rl.LearnOffline(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// What is not known to have earned anything is no transition.
	if result.Recorded != 201 || result.Explored != 300 {
		t.Errorf("%d recorded and %d explored transitions", result.Recorded, result.Explored)
	}
	v := valuesOf(result.Network)
	if !(v[1] > v[0] && v[0] > 0.1 && v[0] < 0.5 && v[2] > 0.25 && v[2] < 0.36) {
		t.Errorf("values %v", v)
	}
}

// A record that earned less with every action alike says nothing against those
// that it took, if rewards are centred.
func TestOfflineCentresApart(t *testing.T) {
	var log []record
	for range 100 {
		log = append(log, record{0, 0.1, false}, record{1, 0, false})
	}
	for centred, best := range map[bool]int{true: 0, false: 2} {
		result, err := rl.LearnOffline(t.Context(), offlineRun(t, centred, log))
		if err != nil {
			t.Fatal(err)
		}
		if v := valuesOf(result.Network); slices.Max(v) != v[best] {
			t.Errorf("centred %v: values %v", centred, v)
		}
	}
}

// An episode that is cut bootstraps from what follows.
func TestOfflineBootstraps(t *testing.T) {
	o := offlineRun(t, false, []record{{0, 1, false}})
	o.Config.Discount = rl.Discount{PerStep: 0.5}
	o.Simulated = &bandit{worth: []float64{1, 1, 1}}
	result, err := rl.LearnOffline(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if v := valuesOf(result.Network); v[0] < 1.7 || v[0] > 2.1 { // 1/(1 − ½)
		t.Errorf("values %v", v)
	}
}

func TestOfflineRepeats(t *testing.T) {
	log := []record{{0, 0.1, false}, {1, 0.4, false}, {2, 0.2, false}}
	var first []float32
	for _, seed := range []uint64{1, 1, 2} {
		o := offlineRun(t, true, log)
		o.Seed, o.Steps = seed, 100
		result, err := rl.LearnOffline(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		v := valuesOf(result.Network)
		if first == nil {
			first = v
		}
		if slices.Equal(v, first) != (seed == 1) {
			t.Errorf("seed %d: values %v, first %v", seed, v, first)
		}
	}
}

// interrupting is a learner that interrupts the run in one of its steps.
type interrupting struct {
	rl.Learner
	left   int
	cancel func()
}

func (l *interrupting) Learn(b *rl.Batch) (rl.Stats, error) {
	if l.left--; l.left == 0 {
		l.cancel()
	}
	return l.Learner.Learn(b)
}

func TestOfflineFaults(t *testing.T) {
	good := []record{{0, 0.1, false}}
	for name, c := range map[string]struct {
		log    []record
		change func(*rl.Offline)
		want   string
	}{
		"nothing known": {[]record{{0, 0, true}}, func(*rl.Offline) {}, rl.ErrNothingRecorded.Error()},
		"action":        {[]record{{3, 0, false}}, func(*rl.Offline) {}, "action 3 of 3"},
		"steps":         {good, func(o *rl.Offline) { o.Steps = 0 }, "0 gradient steps"},
		"decisions":     {good, func(o *rl.Offline) { o.Decisions = 0 }, "0 simulated decisions"},
		"batch":         {good, func(o *rl.Offline) { o.Config.Batch = 1 }, "no halves"},
	} {
		o := offlineRun(t, false, c.log)
		c.change(&o)
		if _, err := rl.LearnOffline(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := offlineRun(t, false, good)
	o.Learner = &interrupting{Learner: o.Learner, left: 10, cancel: cancel}
	if _, err := rl.LearnOffline(ctx, o); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after 10 steps") {
		t.Errorf("interrupted: %v", err)
	}
}
