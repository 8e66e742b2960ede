package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/internal/scenario"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/profile"
	"gearshift/serving/work"
	"gearshift/workloads"
)

// event is one entry of a recorded history: a request arrives and is placed, or
// an earlier one ends. With an arrival comes how far the others are by then.
type event struct {
	at       time.Duration
	decision int
	end      bool
	tokens   int // of the answer that ends
	request  fleet.Request
	variant  int
	replica  int
	progress map[int]int // tokens generated, by decision
}

// everything is a Spec of all kinds of features or, with candidates, of all kinds
// that go with them, and of theirs.
func everything(t *testing.T, table *fleet.Table, places bool) observation.Spec {
	t.Helper()
	kinds := observation.Kinds
	if places {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k observation.Kind) bool { return k == observation.Advice })
	}
	features := ofEach(t, kinds, func(f observation.Feature) error {
		_, err := observation.NewSpec(table, []observation.Feature{f})
		return err
	})
	var candidates []observation.Feature
	if places {
		candidates = ofEach(t, observation.CandidateKinds, func(f observation.Feature) error {
			_, err := observation.NewSpec(table, features, f)
			return err
		})
	}
	spec, err := observation.NewSpec(table, features, candidates...)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// encoderOf makes the encoder of everything.
func encoderOf(t *testing.T, s *scenario.Scenario, table *fleet.Table, places bool) *observation.Encoder {
	t.Helper()
	maker, err := s.Maker(table)
	if err != nil {
		t.Fatal(err)
	}
	e, err := maker.Encoder(everything(t, table, places))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// ofEach is a feature of each kind, with as many scales as check asks for.
func ofEach(t *testing.T, kinds []observation.Kind, check func(observation.Feature) error) (features []observation.Feature) {
	t.Helper()
	for _, kind := range kinds {
		f := observation.Feature{Kind: kind}
		switch kind {
		case observation.Advice:
			f.Rule = "least-work"
		case observation.Estimates:
			f.Rule = "universal"
		case observation.Shortfall:
			f.Requests = []int{1, 4, 19, fleet.RecentRequests}
		}
		for n := range 10 {
			if err := check(f); err == nil {
				features = append(features, f)
				break
			} else if n == 9 {
				t.Fatal(err)
			}
			f.Scale = append(f.Scale, 10)
		}
	}
	return features
}

// record plays a random policy in the simulator and notes every event, and the
// observation of each decision.
func record(t *testing.T, s *scenario.Scenario, places bool) (history []event, observations [][]float32) {
	t.Helper()
	config, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	config.Encoder = encoderOf(t, s, config.Table, places)
	config.Open = func(seed uint64) (workloads.Stream, error) {
		spec := workloads.Spec{Form: "u1"}
		return spec.Open(s.Settings(3000), seed)
	}
	e, err := env.New(config)
	if err != nil {
		t.Fatal(err)
	}
	observation, err := e.Reset(workloads.Seed(workloads.Validation, 99))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 0; ; n++ {
		observations = append(observations, slices.Clone(observation))
		action := rng.IntN(e.Actions())
		progress := map[int]int{}
		e.Simulator().Each(func(decision, generated int) { progress[decision] = generated })
		arrival := event{at: e.Request().Arrival, decision: n, request: *e.Request(), variant: action, progress: progress}
		step, err := e.Step(action)
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, arrival)
		for _, o := range step.Info.Outcomes {
			history[slices.IndexFunc(history, func(x event) bool { return !x.end && x.decision == o.Decision })].replica = o.Replica
			history = append(history, event{at: o.Finished, decision: o.Decision, end: true, tokens: o.OutputTokens})
		}
		if step.Terminated {
			return history, observations
		}
		observation = step.Observation
	}
}

// scripted is a policy and balancer that place each request where the history
// has it, and keep what they were shown.
type scripted struct {
	encoder *observation.Encoder
	now     *event
	seen    [][]float32
	// recent are how the latest requests had gone, by decision.
	recent []fleet.Shortfalls
}

func (*scripted) Name() string { return "scripted" }
func (*scripted) Scratch() int { return 0 }
func (p *scripted) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	seen := make([]float32, p.encoder.Dim())
	p.encoder.Encode(seen, v, r)
	p.seen, p.recent = append(p.seen, seen), append(p.recent, v.Recent)
	return p.now.variant
}
func (p *scripted) Pick(*fleet.View, *fleet.Request, int, uint64) int { return p.now.replica }

// One history of events gives bit-equal observations through the simulator's
// clock and through the server's adapter: a policy is served what it was
// trained on.
func TestSimulatorAndServerShowTheSame(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	s.Training.Observation = []observation.Feature{{Kind: observation.HostBusy, Scale: []float64{1, 1, 1}}} // which has it measured
	for name, places := range map[string]bool{"variants": false, "replicas": true} {
		t.Run(name, func(t *testing.T) { showsTheSame(t, s, places) })
	}
}

func showsTheSame(t *testing.T, s *scenario.Scenario, places bool) {
	history, want := record(t, s, places)
	table := s.Table()
	script := &scripted{encoder: encoderOf(t, s, table, places)}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: script, Balancer: script,
		Forecaster: profile.NewForecaster(s.Profiles())})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.SetPolicy(script); err != nil {
		t.Fatal(err)
	}
	adapter := work.NewAdapter(core, func() time.Duration { return script.now.at })
	works := map[int]*work.Work{}
	busy, shows := s.Busy(core.Ledger()), time.Duration(0)
	for i := range history {
		for ; shows <= history[i].at; shows = busy.Show(shows) {
		}
		script.now = &history[i]
		if history[i].end {
			works[history[i].decision].End(work.Completed, history[i].tokens)
			busy.Answered(works[history[i].decision].Replica, history[i].tokens, history[i].at)
			continue
		}
		for decision, generated := range history[i].progress {
			works[decision].Progress(generated)
		}
		w := adapter.Arrive(history[i].request)
		if err := w.Begin(work.Auto, nil); err != nil {
			t.Fatal(err)
		}
		if w.Fallback || w.Replica != history[i].replica {
			t.Fatalf("decision %d went to replica %d (%s), not %d", history[i].decision, w.Replica, w.Reason, history[i].replica)
		}
		works[history[i].decision] = w
	}
	if len(script.seen) != len(want) {
		t.Fatalf("%d observations, want %d", len(script.seen), len(want))
	}
	for i := range want {
		if !slices.Equal(script.seen[i], want[i]) {
			t.Fatalf("decision %d: the server shows %v, the simulator %v", i, script.seen[i], want[i])
		}
	}
	late, partly := memories(script.recent)
	if late == 0 || partly == 0 {
		t.Errorf("at %d decisions a request was late, at %d one was worth a part of its peak: the test wants both", late, partly)
	}
	if n := core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d requests in flight after the history", n)
	}
}

// memories counts the decisions at which one of the latest requests was known to have missed
// its deadline, and those at which one had earned, or was to earn, a part of its peak.
func memories(recent []fleet.Shortfalls) (late, partly int) {
	for i := range recent {
		known := recent[i].Known()
		if slices.Contains(known, 1) {
			late++
		}
		if slices.ContainsFunc(known, func(x float32) bool { return x > 0 && x < 1 }) {
			partly++
		}
	}
	return late, partly
}
