package planner_test

import (
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/planner"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// limit is a rule of the tests: the large variant while fewer requests than that
// are in flight.
type limit int

func (limit) Scratch() int { return 1 }

func (n limit) Decide(v *fleet.View, _ *fleet.Request, scratch []float32) int {
	scratch[0]++ // ours to scribble on
	var total int
	for _, x := range v.InFlight {
		total += int(x)
	}
	if total < int(n) {
		return 1
	}
	return 0
}

// pair is a fleet of two variants on each of two hosts, which a few requests a
// second fill.
func pair(t testing.TB) env.Config {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{
			{Name: "easy", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.8, 1}},
			{Name: "hard", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.4, 1}},
		},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}},
		[]fleet.Host{{Name: "a"}, {Name: "b"}},
		[]fleet.Replica{
			{Name: "small@a", Variant: 0, Host: 0}, {Name: "small@b", Variant: 0, Host: 1},
			{Name: "large@a", Variant: 1, Host: 0}, {Name: "large@b", Variant: 1, Host: 1},
		})
	if err != nil {
		t.Fatal(err)
	}
	small := &profile.Profile{LaunchFloor: 3, Weights: 0.6, Growth: 0.003, Token: 0.0035, Context: 0.0001, Overhead: 1.5, Sequence: 0.2, Contention: 0.15}
	large := &profile.Profile{LaunchFloor: 8, Weights: 31, Growth: 0.003, Token: 0.186, Context: 0.0017, Overhead: 1.5, Sequence: 0.2, Contention: 0.15}
	return env.Config{
		Table:    table,
		Profiles: []*profile.Profile{small, small, large, large},
		KVTokens: []int{4000, 4000, 2400, 2400},
		Engine:   engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 512, MaxSequences: 32, BlockTokens: 16},
		Balancer: balance.SmallestBatch{},
		Check:    true,
	}
}

// shape is what the requests of the tests look like.
var shape = workloads.Shape{
	Prompt: workloads.Lengths{Distribution: "uniform", Min: 20, Max: 80},
	Output: workloads.Lengths{Distribution: "geometric", Mean: 64, Max: 400},
}

// bursts opens episodes of so many requests that come in bursts.
func bursts(t testing.TB, c env.Config, requests int) func(uint64) (workloads.Stream, error) {
	t.Helper()
	process, err := workloads.NewGamma(5, 2)
	if err != nil {
		t.Fatal(err)
	}
	return func(seed uint64) (workloads.Stream, error) {
		return workloads.New(process, c.Table.Tasks, shape, seed, workloads.Limit{Requests: requests})
	}
}

func begin(t testing.TB, c env.Config, seed uint64) *env.Environment {
	t.Helper()
	e, err := env.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reset(seed); err != nil {
		t.Fatal(err)
	}
	return e
}

// play lets the decider choose to the end. It returns the choices and the sum
// of the rewards.
func play(t testing.TB, e *env.Environment, d planner.Decider) (choices []int, total float64) {
	t.Helper()
	scratch := make([]float32, d.Scratch())
	for {
		choices = append(choices, d.Decide(e.View(), e.Request(), scratch))
		step, err := e.Step(choices[len(choices)-1])
		if err != nil {
			t.Fatal(err)
		}
		total += step.Reward
		if step.Terminated {
			return choices, total
		}
	}
}

func clairvoyant(t testing.TB, e *env.Environment, seed uint64, base planner.Decider, o planner.ClairvoyantOptions) planner.Decider {
	t.Helper()
	c, err := planner.NewClairvoyant(e, seed, base, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// list is a workload of given arrivals.
type list = workloads.Given

// Copies, kept ways and all choose exactly as episodes that are replayed from
// their beginning, cut off at the horizon.
func TestClairvoyantAgainstReplays(t *testing.T) {
	differs := 0
	for seed := range uint64(6) {
		c := pair(t)
		c.Engine.Scheduler = []string{engine.PrefillFirst, engine.ChunkedPrefill}[seed%2]
		c.Open = bursts(t, c, 60)
		horizon := []time.Duration{0, 2 * time.Second, time.Hour}[seed%3]
		base := limit(5)
		e := begin(t, c, seed)
		got, _ := play(t, e, clairvoyant(t, e, seed, base, planner.ClairvoyantOptions{Horizon: horizon}))
		want := naive(t, c, seed, base, horizon)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: the planner chooses\n%v, replays\n%v", seed, got, want)
		}
		if own, _ := play(t, begin(t, c, seed), base); !slices.Equal(got, own) {
			differs++
		}
	}
	if differs < 4 {
		t.Errorf("in %d of 6 episodes the planner chooses otherwise than its base: too easy a test", differs)
	}
}

// naive is the clairvoyant's rule written down: replay, branch, sum.
func naive(t *testing.T, c env.Config, seed uint64, base planner.Decider, horizon time.Duration) (choices []int) {
	t.Helper()
	stream, err := c.Open(seed)
	if err != nil {
		t.Fatal(err)
	}
	var all list
	for a, ok := stream.Next(); ok; a, ok = stream.Next() {
		all = append(all, a)
	}
	scratch := make([]float32, base.Scratch())
	for now := range all {
		until := slices.IndexFunc(all, func(a workloads.Arrival) bool { return a.At > all[now].At+horizon })
		if until < 0 {
			until = len(all)
		}
		c.Open = func(uint64) (workloads.Stream, error) { l := slices.Clone(all[:until]); return &l, nil }
		replay := func() *env.Environment {
			e := begin(t, c, seed)
			for _, a := range choices {
				if _, err := e.Step(a); err != nil {
					t.Fatal(err)
				}
			}
			return e
		}
		e := replay()
		own := base.Decide(e.View(), e.Request(), scratch)
		best, highest := own, finish(t, e, own, base)
		for action := range c.Table.Variants {
			if value := finish(t, replay(), action, base); action != own && value > highest+1e-9 {
				best, highest = action, value
			}
		}
		choices = append(choices, best)
	}
	return choices
}

// finish takes the action, then the base's to the end, and returns what they earn.
func finish(t *testing.T, e *env.Environment, action int, base planner.Decider) (sum float64) {
	t.Helper()
	step, err := e.Step(action)
	if err != nil {
		t.Fatal(err)
	}
	if step.Terminated {
		return step.Reward
	}
	_, rest := play(t, e, base)
	return step.Reward + rest
}

// With the whole episode in sight each choice keeps what was gained before it,
// so no pass is worse than the one before, nor the first than the base.
func TestForesightNeverHurts(t *testing.T) {
	gained := 0.
	for seed := range uint64(5) {
		c := pair(t)
		c.Open = bursts(t, c, 80)
		_, before := play(t, begin(t, c, seed), limit(3))
		for passes := range 3 {
			e := begin(t, c, seed)
			_, total := play(t, e, clairvoyant(t, e, seed, limit(3), planner.ClairvoyantOptions{Horizon: time.Hour, Passes: passes + 1}))
			if total < before-1e-9 {
				t.Errorf("seed %d: pass %d earns %v, before %v", seed, passes+1, total, before)
			}
			gained += total - before
			before = total
		}
	}
	if gained < 5 {
		t.Errorf("all passes together gain %v: too easy a test", gained)
	}
}

// Where no action earns more, the base's own is taken.
func TestTiesGoToTheBase(t *testing.T) {
	c := pair(t)
	tasks := slices.Clone(c.Table.Tasks)
	for i := range tasks {
		tasks[i].Quality = []float64{1, 1}
		tasks[i].Deadline = time.Hour
	}
	table, err := fleet.NewTable(tasks, c.Table.Variants, c.Table.Hosts, c.Table.Replicas)
	if err != nil {
		t.Fatal(err)
	}
	c.Table = table
	c.Open = bursts(t, c, 40)
	own, _ := play(t, begin(t, c, 1), limit(4))
	e := begin(t, c, 1)
	if got, _ := play(t, e, clairvoyant(t, e, 1, limit(4), planner.ClairvoyantOptions{Horizon: 5 * time.Second})); !slices.Equal(got, own) {
		t.Errorf("with nothing to gain the clairvoyant chooses %v, its base %v", got, own)
	}
}

func TestClairvoyantRefuses(t *testing.T) {
	c := pair(t)
	c.Open = bursts(t, c, 10)
	e := begin(t, c, 1)
	for _, o := range []planner.ClairvoyantOptions{{Horizon: -1}, {Passes: -1}} {
		if _, err := planner.NewClairvoyant(e, 1, limit(4), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
