package rl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gearshift/rl"
	"gearshift/rl/rltest"
	"gearshift/router/nn"
)

// chainRun is a run on the delayed chain, which stops in the middle of episodes,
// with transitions held back.
func chainRun(t *testing.T) rl.Run { return chainRunOf(t, rltest.Config()) }

func chainRunOf(t *testing.T, cfg rl.Config) rl.Run {
	cfg.Decisions = 1500
	cfg.Replay = 300
	cfg.ValidateEvery = 250
	cfg.CheckpointEvery = 200
	r := rltest.NewRun(t, rltest.NewLinear, cfg, banded{&rltest.Chain{}}, 2, 7)
	for len(r.Envs) < cfg.Environments {
		r.Envs = append(r.Envs, banded{&rltest.Chain{}})
	}
	r.Validate = func(m *nn.MLP) (float64, error) { return float64(m.Weights[0][0]), nil }
	return r
}

// banded is an environment whose decisions fall into three strata.
type banded struct{ rl.Env }

func (e banded) Step(action int) rl.Step {
	s := e.Env.Step(action)
	for i := range s.Completed {
		s.Completed[i].Stratum = s.Completed[i].Decision % 3
	}
	return s
}

// saved keeps the encoding of the latest progress, and counts.
type saved struct {
	data  []byte
	count int
}

func (s *saved) save(p *rl.Progress) error {
	data, err := p.MarshalBinary()
	s.data = data
	s.count++
	return err
}

func (s *saved) load(t *testing.T) *rl.Progress {
	t.Helper()
	p := new(rl.Progress)
	if err := p.UnmarshalBinary(s.data); err != nil {
		t.Fatal(err)
	}
	return p
}

func marshal(t *testing.T, m *nn.MLP) []byte {
	t.Helper()
	data, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestResumeIsBitEqual(t *testing.T) {
	t.Run("centred and averaged", func(t *testing.T) { resumes(t, rltest.Config()) })
	t.Run("plain", func(t *testing.T) {
		cfg := rltest.Config()
		cfg.CentreRewards, cfg.WeightAverage = false, 0
		resumes(t, cfg)
	})
	t.Run("prioritised", func(t *testing.T) {
		cfg := rltest.Config()
		cfg.Priority = &rl.Priority{Exponent: 0.6, Correction: 0.4}
		resumes(t, cfg)
	})
	t.Run("several environments", func(t *testing.T) {
		cfg := rltest.Config()
		cfg.Environments = 7
		resumes(t, cfg)
	})
}

func resumes(t *testing.T, cfg rl.Config) {
	var straight saved
	r := chainRunOf(t, cfg)
	r.Save = straight.save
	want, err := rl.Train(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Before warm-up, in mid-episode, at an episode's end, at a validation, and
	// at the end itself.
	for _, stops := range [][]int{{0}, {57}, {717}, {800}, {750}, {1500}, {1, 333, 334, 1499}} {
		var s saved
		for i, stop := range append(slices.Clone(stops), 0) {
			r := chainRunOf(t, cfg)
			r.Save, r.Stop = s.save, stop
			var from *rl.Progress
			if i > 0 {
				from = s.load(t)
			}
			got, err := rl.Train(context.Background(), r, from)
			if err != nil {
				t.Fatalf("stops %v: %v", stops, err)
			}
			if i < len(stops) && stop > 0 && got.Decisions != rounds(cfg, stop) {
				t.Fatalf("stops %v: stopped after %d decisions", stops, got.Decisions)
			}
			if i == len(stops) && (!bytes.Equal(marshal(t, got.Network), marshal(t, want.Network)) || got.Score != want.Score) {
				t.Errorf("stops %v: another network", stops)
			}
		}
		if !bytes.Equal(s.data, straight.data) {
			t.Errorf("stops %v: another progress", stops)
		}
	}
}

// rounds is where a run that is to stop after so many decisions does.
func rounds(cfg rl.Config, decisions int) int {
	n := max(1, cfg.Environments)
	return (decisions + n - 1) / n * n
}

func TestInterruptionSaves(t *testing.T) {
	var straight saved
	r := chainRun(t)
	r.Save = straight.save
	if _, err := rl.Train(context.Background(), r, nil); err != nil {
		t.Fatal(err)
	}

	// The interruption falls between decisions, or into a validation.
	for _, inValidation := range []bool{false, true} {
		var s saved
		ctx, cancel := context.WithCancel(context.Background())
		r = chainRun(t)
		r.Save = s.save
		validate := r.Validate
		if inValidation {
			r.Validate = func(m *nn.MLP) (float64, error) {
				cancel()
				return 0, ctx.Err()
			}
		} else {
			r.ReportEvery = 333
			r.Report = func(rl.Report) { cancel() }
		}
		if _, err := rl.Train(ctx, r, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		p := s.load(t)
		if want := map[bool]int{false: 333, true: 250}[inValidation]; p.Decisions != want {
			t.Fatalf("saved after %d decisions, not %d", p.Decisions, want)
		}
		r = chainRun(t)
		r.Save, r.Validate = s.save, validate
		if _, err := rl.Train(context.Background(), r, p); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(s.data, straight.data) {
			t.Error("the resumed run ends elsewhere than the uninterrupted one")
		}
	}
}

// What cannot be saved is worse than the interruption.
func TestInterruptionThatCannotSave(t *testing.T) {
	full := errors.New("the disk is full")
	ctx, cancel := context.WithCancel(context.Background())
	r := chainRun(t)
	r.Config.CheckpointEvery = r.Config.Decisions
	r.Save = func(*rl.Progress) error { return full }
	r.ReportEvery, r.Report = 333, func(rl.Report) { cancel() }
	got, err := rl.Train(ctx, r, nil)
	if !errors.Is(err, full) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after 333 decisions") || got.Decisions != 333 {
		t.Errorf("after %d decisions: %v", got.Decisions, err)
	}
}

func TestBestValidatedWeightsAreTheResult(t *testing.T) {
	r := chainRun(t)
	scores := []float64{1, 3, 3, 2, 0, -1}
	var networks [][]byte
	r.Validate = func(m *nn.MLP) (float64, error) {
		networks = append(networks, marshal(t, m))
		return scores[len(networks)-1], nil
	}
	got, err := rl.Train(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(networks) != len(scores) {
		t.Fatalf("%d validations", len(networks))
	}
	if got.Score != 3 || !bytes.Equal(marshal(t, got.Network), networks[1]) {
		t.Error("the result is not the first of the best weights")
	}
}

func TestSavesAndReports(t *testing.T) {
	r := chainRun(t)
	var s saved
	var reports []rl.Report
	r.Save = s.save
	r.ReportEvery = 400
	r.Report = func(p rl.Report) { reports = append(reports, p) }
	if _, err := rl.Train(context.Background(), r, nil); err != nil {
		t.Fatal(err)
	}
	if s.count != 8 { // every 200 of 1500, and the end
		t.Errorf("saved %d times", s.count)
	}
	if len(reports) != 4 {
		t.Fatalf("%d reports", len(reports))
	}
	last := reports[3]
	if last.Decisions != 1500 || last.Total != 1500 || last.Validations != 6 || last.GradientSteps != 701 || last.Episode != 37 {
		t.Errorf("last report %+v", last)
	}
	if last.Epsilon != r.Config.Epsilon.End || last.LearningRate != r.Config.FinalLearningRate {
		t.Errorf("last report's schedules: ε %v, learning rate %v", last.Epsilon, last.LearningRate)
	}
	if last.Utility < 0.3 || last.Loss <= 0 || last.TDError <= 0 {
		t.Errorf("last report's averages %+v", last)
	}
}

// weighed is a learner that keeps the weights of the batches it learns from.
type weighed struct {
	rl.Learner
	weights [][]float32
}

func (l *weighed) Learn(b *rl.Batch) (rl.Stats, error) {
	l.weights = append(l.weights, slices.Clone(b.Weights))
	return l.Learner.Learn(b)
}

// The first batch is drawn from transitions of one priority, so its weights are 1;
// the later ones are not.
func TestBatchesAreWeighedByPriority(t *testing.T) {
	cfg := rltest.Config()
	for _, priority := range []*rl.Priority{nil, {Exponent: 0.6, Correction: 0.4}} {
		cfg.Priority = priority
		r := chainRunOf(t, cfg)
		l := &weighed{Learner: r.Learner}
		r.Learner = l
		if _, err := rl.Train(context.Background(), r, nil); err != nil {
			t.Fatal(err)
		}
		if priority == nil {
			if l.weights[0] != nil {
				t.Error("uniform batches have weights")
			}
			continue
		}
		first, last := l.weights[0], l.weights[len(l.weights)-1]
		if slices.Min(first) != 1 || slices.Max(first) != 1 {
			t.Errorf("the first batch has weights %v", first)
		}
		if slices.Min(last) == 1 || slices.Max(last) != 1 {
			t.Errorf("the last batch has weights %v", last)
		}
	}
}

// broken wraps an environment and spoils its steps.
type broken struct {
	rl.Env
	spoil func(*rl.Step)
}

func (e broken) Step(action int) rl.Step {
	s := e.Env.Step(action)
	e.spoil(&s)
	return s
}

func TestEnvironmentFaults(t *testing.T) {
	for name, spoil := range map[string]func(*rl.Step){
		"completed twice":   func(s *rl.Step) { s.Completed = append(s.Completed, s.Completed...) },
		"not yet decided":   func(s *rl.Step) { s.Completed = []rl.Completion{{Decision: 1000}} },
		"negative decision": func(s *rl.Step) { s.Completed = []rl.Completion{{Decision: -1}} },
		"short observation": func(s *rl.Step) { s.Observation = s.Observation[:1] },
	} {
		r := chainRun(t)
		r.Envs[0] = broken{r.Envs[0], spoil}
		if _, err := rl.Train(context.Background(), r, nil); !errors.Is(err, rl.ErrEnvironment) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestResumeRefusesWhatDoesNotFit(t *testing.T) {
	var s saved
	r := chainRun(t)
	r.Stop, r.Save = 717, s.save
	if _, err := rl.Train(context.Background(), r, nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*rl.Run, *rl.Progress){
		"replay buffer": func(r *rl.Run, _ *rl.Progress) { r.Config.Replay++ },
		"transitions":   func(r *rl.Run, _ *rl.Progress) { r.Config.Priority = &rl.Priority{Exponent: 1, Correction: 1} },
		"decisions":     func(r *rl.Run, _ *rl.Progress) { r.Config.Decisions = 716 },
		"action":        func(_ *rl.Run, p *rl.Progress) { p.Episodes[0].Actions[0] = 2 },
		"counts":        func(_ *rl.Run, p *rl.Progress) { p.Episodes[0].Number = 718 },
		"exploration":   func(_ *rl.Run, p *rl.Progress) { p.Exploration = nil },
		"network":       func(_ *rl.Run, p *rl.Progress) { p.Best = []byte{1} },
		"learner":       func(_ *rl.Run, p *rl.Progress) { p.Learner = nil },
		"environments": func(r *rl.Run, _ *rl.Progress) {
			r.Config.Environments = 2
			r.Envs = append(r.Envs, &rltest.Chain{})
		},
		"ends earlier": func(r *rl.Run, _ *rl.Progress) {
			r.Envs[0] = broken{r.Envs[0], func(s *rl.Step) { s.Truncated = true }}
		},
	} {
		r, p := chainRun(t), s.load(t)
		change(&r, p)
		if _, err := rl.Train(context.Background(), r, p); err == nil || !strings.Contains(err.Error(), "resume") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The identity's observation is the advice to do what is right: within the margin,
// nothing else is done.
func TestAdviceIsTakenWithinTheMargin(t *testing.T) {
	follows := func(margin float64) float64 {
		cfg := rltest.Config()
		cfg.Decisions, cfg.Warmup, cfg.Epsilon, cfg.AdviceMargin = 200, 200, rl.Epsilon{}, margin
		r := rltest.NewRun(t, rltest.NewLinear, cfg, &rltest.Identity{Size: 3}, 3, 7)
		var utility float64
		r.Report = func(report rl.Report) { utility = report.Utility }
		if _, err := rl.Train(context.Background(), r, nil); err != nil {
			t.Fatal(err)
		}
		return utility
	}
	if u := follows(100); u != 1 {
		t.Errorf("the advised action was taken in a share %v of the decisions", u)
	}
	if u := follows(0); u == 1 {
		t.Error("advice is taken without a margin")
	}
}

func TestHookErrorsEndTheRun(t *testing.T) {
	boom := errors.New("boom")
	r := chainRun(t)
	r.Save = func(*rl.Progress) error { return boom }
	if got, err := rl.Train(context.Background(), r, nil); !errors.Is(err, boom) || got.Decisions != 200 {
		t.Errorf("save: error %v after %d decisions", err, got.Decisions)
	}
	r = chainRun(t)
	r.Validate = func(*nn.MLP) (float64, error) { return 0, boom }
	if got, err := rl.Train(context.Background(), r, nil); !errors.Is(err, boom) || got.Decisions != 250 {
		t.Errorf("validate: error %v after %d decisions", err, got.Decisions)
	}
}

// go test -run '^$' -bench Decision ./rl
func BenchmarkDecision(b *testing.B) {
	for _, environments := range []int{1, 4} {
		b.Run(fmt.Sprintf("environments=%d", environments), func(b *testing.B) { benchmarkDecision(b, environments) })
	}
}

func benchmarkDecision(b *testing.B, environments int) {
	cfg := rltest.Config()
	cfg.Environments = environments
	cfg.Decisions = 1 << 30
	cfg.Warmup = 1 << 30 // no gradient steps: the loop, a small environment and network alone
	cfg.CheckpointEvery = 1 << 30
	r := rltest.NewRun(b, rltest.NewLinear, cfg, &rltest.Chain{}, 2, 7)
	for len(r.Envs) < environments {
		r.Envs = append(r.Envs, &rltest.Chain{})
	}
	r.Stop = b.N
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := rl.Train(context.Background(), r, nil); err != nil {
		b.Fatal(err)
	}
}
