package env_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/envtest"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// list is a workload of given arrivals.
type list = workloads.Given

// poisson is arrivals at a rate with lengths that strain the KV cache.
func poisson(seed uint64, rate float64, n int) *list {
	rng := rand.New(rand.NewPCG(seed, 7))
	var l list
	var at time.Duration
	for range n {
		at += time.Duration(rng.ExpFloat64() / rate * float64(time.Second))
		l = append(l, workloads.Arrival{At: at, Task: rng.IntN(2), PromptTokens: 1 + rng.IntN(134), OutputTokens: 1 + rng.IntN(300), Rate: rate})
	}
	return &l
}

// twoByTwo is a fleet of two variants on each of two hosts, with little memory.
func twoByTwo(t testing.TB) env.Config {
	t.Helper()
	tasks := []fleet.Task{
		{Name: "easy", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.8, 1}},
		{Name: "hard", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.4, 1}},
	}
	table, err := fleet.NewTable(tasks,
		[]fleet.Variant{{Name: "small"}, {Name: "large"}},
		[]fleet.Host{{Name: "a"}, {Name: "b"}},
		[]fleet.Replica{
			{Name: "small@a", Variant: 0, Host: 0}, {Name: "small@b", Variant: 0, Host: 1},
			{Name: "large@a", Variant: 1, Host: 0}, {Name: "large@b", Variant: 1, Host: 1},
		})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.TaskOneHot}, {Kind: observation.InFlight, Scale: []float64{10, 10}},
		{Kind: observation.Shortest, Scale: []float64{10, 10}}, {Kind: observation.Rate, Scale: []float64{10}},
	})
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := observation.NewEncoder(spec, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	small := &profile.Profile{LaunchFloor: 3, Weights: 0.6, Growth: 0.003, Token: 0.0035, Context: 0.0001, Overhead: 1.5, Sequence: 0.2, Contention: 0.15}
	large := &profile.Profile{LaunchFloor: 8, Weights: 33.8, Growth: 0.003, Token: 0.186, Context: 0.0017, Overhead: 1.5, Sequence: 0.2, Contention: 0.15}
	return env.Config{
		Table:    table,
		Profiles: []*profile.Profile{small, small, large, large},
		KVTokens: []int{2000, 2000, 1200, 1200},
		Engine:   engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 512, MaxSequences: 16, BlockTokens: 16},
		Balancer: balance.SmallestBatch{},
		Encoder:  encoder,
		Check:    true,
		Open:     func(seed uint64) (workloads.Stream, error) { return poisson(seed, 12, 400), nil },
	}
}

func make2(t *testing.T, c env.Config) *env.Environment {
	t.Helper()
	e, err := env.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestContract(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		for _, limit := range []int{0, 150} {
			for _, balancer := range []env.Balancer{balance.SmallestBatch{}, balance.PowerOfK{K: 2}} {
				c := twoByTwo(t)
				c.Engine.Scheduler, c.Limit, c.Balancer = scheduler, limit, balancer
				if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
					t.Errorf("%s, limit %d: %v", scheduler, limit, err)
				}
			}
		}
	}
}

// One request alone: the prefill, then a decode step per further token.
func TestTimelineOfOneRequest(t *testing.T) {
	c := twoByTwo(t)
	c.Open = func(uint64) (workloads.Stream, error) {
		return &list{{At: time.Second, Task: 1, PromptTokens: 90, OutputTokens: 3}}, nil
	}
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	step, err := e.Step(1)
	if err != nil {
		t.Fatal(err)
	}
	if !step.Terminated || step.Truncated || len(step.Info.Outcomes) != 1 {
		t.Fatalf("step %+v: want termination with one outcome", step)
	}
	p := c.Profiles[2]
	prefill, _ := p.Step(90, 1, 0, 0)
	first, _ := p.Step(1, 1, 91, 0)
	second, _ := p.Step(1, 1, 92, 0)
	o := step.Info.Outcomes[0]
	near(t, "first token", o.FirstToken, time.Second+profile.Duration(prefill))
	near(t, "finish", o.Finished, time.Second+profile.Duration(prefill)+profile.Duration(first)+profile.Duration(second))
	if o.Utility != 1 || !o.Met || step.Reward != 1 {
		t.Errorf("outcome %+v with reward %v: want utility 1", o, step.Reward)
	}
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if d := got - want; d < -time.Microsecond || d > time.Microsecond {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}

// A busy neighbour slows the GPU part of a step by γ × its duty.
func TestNeighboursContend(t *testing.T) {
	finish := func(arrivals ...workloads.Arrival) time.Duration {
		c := twoByTwo(t)
		c.Open = func(uint64) (workloads.Stream, error) { l := list(arrivals); return &l, nil }
		c.Balancer = firstOf{}
		e := make2(t, c)
		if _, err := e.Reset(1); err != nil {
			t.Fatal(err)
		}
		var last env.Step
		for i := range arrivals {
			var err error
			if last, err = e.Step(1 - i); err != nil { // large, then small on the same host
				t.Fatal(err)
			}
		}
		for _, o := range last.Info.Outcomes {
			if o.Decision == 0 {
				return o.Finished
			}
		}
		t.Fatal("decision 0 has no outcome")
		return 0
	}
	large := workloads.Arrival{At: 0, PromptTokens: 90, OutputTokens: 100}
	alone := finish(large)
	beside := finish(large, workloads.Arrival{At: time.Millisecond, PromptTokens: 90, OutputTokens: 400})
	if ratio := float64(beside) / float64(alone); ratio < 1.005 || ratio > 1.15 {
		t.Errorf("with a neighbour the large request takes %v, alone %v", beside, alone)
	}
}

// firstOf picks the first replica, to put all on one host.
type firstOf struct{}

func (firstOf) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	return v.Table.ReplicasOf(variant)[0]
}

// Truncation keeps the observation of the request that would have been next.
func TestTruncationKeepsTheNextObservation(t *testing.T) {
	c := twoByTwo(t)
	long := make2(t, c)
	c.Limit = 50
	short := make2(t, c)
	for _, e := range []*env.Environment{long, short} {
		if _, err := e.Reset(3); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 50 {
		a, err := long.Step(n % 2)
		if err != nil {
			t.Fatal(err)
		}
		b, err := short.Step(n % 2)
		if err != nil {
			t.Fatal(err)
		}
		if b.Truncated != (n == 49) || b.Terminated {
			t.Fatalf("step %d: truncated %t, terminated %t", n, b.Truncated, b.Terminated)
		}
		for i := range a.Observation {
			if a.Observation[i] != b.Observation[i] {
				t.Fatalf("step %d: observations differ: %v, %v", n, a.Observation, b.Observation)
			}
		}
		if a.Info.Elapsed != b.Info.Elapsed {
			t.Fatalf("step %d: elapsed %v, %v", n, a.Info.Elapsed, b.Info.Elapsed)
		}
	}
}

func TestStepRefuses(t *testing.T) {
	c := twoByTwo(t)
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	for _, action := range []int{-1, 2} {
		if _, err := e.Step(action); err == nil {
			t.Errorf("action %d is taken", action)
		}
	}
	c.Open = func(uint64) (workloads.Stream, error) {
		return &list{{PromptTokens: 5000, OutputTokens: 5}}, nil
	}
	e = make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(1); err == nil {
		t.Error("a prompt above the KV cache is taken")
	}
}

// The known rate replaces the estimate in the observation (LBE-19).
func TestKnownRate(t *testing.T) {
	c := twoByTwo(t)
	c.KnownRate = true
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	if e.View().Rate != 12 {
		t.Errorf("rate %v, want the declared 12", e.View().Rate)
	}
}

// A trace is JSON in Chrome's format, with slices that do not overlap within a
// thread.
func TestTrace(t *testing.T) {
	c := twoByTwo(t)
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	trace := env.NewTrace(&out, c.Table)
	trace.Attach(e.Simulator())
	for n := 0; ; n++ {
		step, err := e.Step(n % 2)
		if err != nil {
			t.Fatal(err)
		}
		if step.Terminated {
			break
		}
	}
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Phase    string  `json:"ph"`
		At       float64 `json:"ts"`
		Dur      float64
		Pid, Tid int
	}
	if err := json.Unmarshal(out.Bytes(), &events); err != nil {
		t.Fatal(err)
	}
	ends := map[[2]int]float64{}
	slices := 0
	for _, x := range events {
		if x.Phase != "X" {
			continue
		}
		slices++
		at := [2]int{x.Pid, x.Tid}
		if x.At < ends[at]-1e-3 {
			t.Fatalf("thread %v: a slice begins at %v before the last ended at %v", at, x.At, ends[at])
		}
		ends[at] = math.Max(ends[at], x.At+x.Dur)
	}
	if slices < 1000 || len(ends) != 4 {
		t.Errorf("%d slices on %d threads: want over 1000 on 4", slices, len(ends))
	}
}
