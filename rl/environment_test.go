package rl_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"gearshift/rl"
	"gearshift/rl/rltest"
)

// No goroutine outlives its run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// identities is a run of several environments of four numbers each.
func identities(t *testing.T, environments int) rl.Run {
	cfg := rltest.Config()
	cfg.Environments = environments
	r := rltest.NewRun(t, rltest.NewLinear, cfg, &rltest.Identity{Size: 4}, 4, 1)
	for len(r.Envs) < environments {
		r.Envs = append(r.Envs, &rltest.Identity{Size: 4})
	}
	return r
}

func TestCoresMakeNoDifference(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, environments := range []int{2, 5} {
		var want []byte
		for _, cores := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(cores)
			r := identities(t, environments)
			var s saved
			r.Save = s.save
			if _, err := rl.Train(context.Background(), r, nil); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = s.data
			}
			if !bytes.Equal(s.data, want) {
				t.Errorf("%d environments: another run on %d cores than on one", environments, cores)
			}
		}
	}
}

func TestSeveralEnvironmentsTeach(t *testing.T) {
	result, err := rl.Train(context.Background(), identities(t, 4), nil)
	if err != nil {
		t.Fatal(err)
	}
	for hot := range 4 {
		if got := rltest.Greedy(result.Network, hot); got != hot {
			t.Errorf("action %d at observation %d", got, hot)
		}
	}
	cfg := rltest.Config()
	cfg.Environments = 4
	if result, err = rl.Train(context.Background(), chainRunOf(t, cfg), nil); err != nil {
		t.Fatal(err)
	}
	if rltest.Greedy(result.Network, rltest.Start) != 1 {
		t.Error("the chain's small utility now is preferred to the large one later")
	}
}

// seeded tells the seeds of an environment's episodes.
type seeded struct {
	rl.Env
	seeds *[]uint64
}

func (e seeded) Reset(seed uint64) []float32 {
	*e.seeds = append(*e.seeds, seed)
	return e.Env.Reset(seed)
}

// Each environment takes the next episode that none has had; what is due within a
// round is done at its end, once.
func TestRoundsOfSeveralEnvironments(t *testing.T) {
	cfg := rltest.Config()
	cfg.Environments = 7
	r := chainRunOf(t, cfg) // 1500 decisions, validated every 250, saved every 200
	var seeds [7][]uint64
	for i := range r.Envs {
		r.Envs[i] = seeded{r.Envs[i], &seeds[i]}
	}
	var s saved
	var reports []rl.Report
	r.Save = s.save
	r.ReportEvery = 400
	r.Report = func(p rl.Report) { reports = append(reports, p) }
	result, err := rl.Train(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Decisions != 1505 || s.count != 8 {
		t.Errorf("%d decisions, saved %d times", result.Decisions, s.count)
	}
	var at []int
	for _, p := range reports {
		at = append(at, p.Decisions)
	}
	if len(at) != 4 || at[0] != 406 || at[1] != 805 || at[2] != 1204 || at[3] != 1505 {
		t.Errorf("reports at %v", at)
	}
	// A gradient step follows every other decision from the hundredth on.
	last := reports[len(reports)-1]
	if last.Validations != 6 || last.GradientSteps != 703 || last.Episode != 7*6-1 {
		t.Errorf("last report %+v", last)
	}
	for i := range seeds {
		for k, seed := range seeds[i] {
			if want := r.EpisodeSeed(uint64(7*k + i)); seed != want {
				t.Errorf("environment %d's episode %d has seed %d, not %d", i, k, seed, want)
			}
		}
	}
}

// clock counts the steps of all environments.
type clock struct {
	mu      sync.Mutex
	stepped sync.Cond
	steps   int
}

type timed struct {
	rl.Env
	clock *clock
}

func (e timed) Step(action int) rl.Step {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	e.clock.steps++
	e.clock.stepped.Broadcast()
	return e.Env.Step(action)
}

// waiting is a learner whose steps do not end before all environments have stepped.
type waiting struct {
	rl.Learner
	clock        *clock
	decisions    int // of the rounds before
	environments int
}

func (l *waiting) Learn(b *rl.Batch) (rl.Stats, error) {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	for l.clock.steps < l.decisions+l.environments {
		l.clock.stepped.Wait()
	}
	return l.Learner.Learn(b)
}

func TestEnvironmentsStepWhileTheNetworkLearns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	synctest.Test(t, func(t *testing.T) {
		r := identities(t, 3)
		c := &clock{}
		c.stepped.L = &c.mu
		for i := range r.Envs {
			r.Envs[i] = timed{r.Envs[i], c}
		}
		l := &waiting{Learner: r.Learner, clock: c, environments: 3}
		r.Learner, r.ReportEvery = l, 3
		r.Report = func(p rl.Report) { l.decisions = p.Decisions }
		r.Stop = 600
		if _, err := rl.Train(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// failing is a learner whose first step fails.
type failing struct{ rl.Learner }

var errFailing = errors.New("boom")

func (failing) Learn(*rl.Batch) (rl.Stats, error) { return rl.Stats{}, errFailing }

func TestFaultsAmongSeveralEnvironments(t *testing.T) {
	r := identities(t, 3)
	r.Learner = failing{r.Learner}
	if _, err := rl.Train(context.Background(), r, nil); !errors.Is(err, errFailing) {
		t.Errorf("a learner that fails: error %v", err)
	}
	r = identities(t, 3)
	r.Envs[2] = broken{r.Envs[2], func(s *rl.Step) { s.Observation = nil }}
	if _, err := rl.Train(context.Background(), r, nil); !errors.Is(err, rl.ErrEnvironment) {
		t.Errorf("an environment that breaks its contract: error %v", err)
	}
	r = identities(t, 3)
	r.Envs = r.Envs[:2]
	if _, err := rl.Train(context.Background(), r, nil); err == nil || !strings.Contains(err.Error(), "2 environments, its configuration 3") {
		t.Errorf("too few environments: error %v", err)
	}
}
