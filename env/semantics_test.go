package env_test

import (
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// of makes every episode consist of these arrivals.
func of(arrivals ...workloads.Arrival) func(uint64) (workloads.Stream, error) {
	return func(uint64) (workloads.Stream, error) { l := list(arrivals); return &l, nil }
}

// with is the configuration with other deadlines and decays, task by task.
func with(t *testing.T, c env.Config, change func(task int, of *fleet.Task)) env.Config {
	t.Helper()
	var tasks []fleet.Task
	for i, task := range c.Table.Tasks {
		change(i, &task)
		tasks = append(tasks, task)
	}
	table, err := fleet.NewTable(tasks, c.Table.Variants, c.Table.Hosts, c.Table.Replicas)
	if err != nil {
		t.Fatal(err)
	}
	c.Table, c.Encoder = table, nil
	return c
}

// only plays one request and returns its outcome.
func only(t *testing.T, c env.Config, a workloads.Arrival) *env.Outcome {
	t.Helper()
	c.Open = of(a)
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	step, err := e.Step(1)
	if err != nil || len(step.Info.Outcomes) != 1 {
		t.Fatalf("%d outcomes, %v", len(step.Info.Outcomes), err)
	}
	return &step.Info.Outcomes[0]
}

// Each task is judged by its own deadline (LBE-5): two requests alike but for
// their task differ in nothing but that.
func TestDeadlinesBelongToTasks(t *testing.T) {
	base := twoByTwo(t)
	request := workloads.Arrival{At: time.Second, PromptTokens: 90, OutputTokens: 20}
	latency := only(t, base, request).Latency()
	c := with(t, base, func(i int, task *fleet.Task) {
		task.Deadline = latency - time.Duration(i) // to the nanosecond: task 0 holds, task 1 does not
		task.Quality = []float64{0.5, 0.9}
	})
	for task, met := range []bool{true, false} {
		request.Task = task
		o := only(t, c, request)
		want := map[bool]float64{true: 0.9}[met]
		if o.Latency() != latency || o.Met != met || o.Utility != want {
			t.Errorf("task %d: met %t with utility %v after %v, want %t with %v after %v", task, o.Met, o.Utility, o.Latency(), met, want, latency)
		}
	}
}

// A soft deadline takes 1 % a millisecond in the simulator too, and everything
// from a tenth of the deadline on (LBE-3); the deadline is missed all the same.
func TestSoftDecayInTheSimulator(t *testing.T) {
	base := twoByTwo(t)
	request := workloads.Arrival{At: time.Second, PromptTokens: 90, OutputTokens: 20}
	latency := only(t, base, request).Latency()
	for _, x := range []struct {
		deadline time.Duration
		factor   float64
		met      bool
	}{
		{latency, 1, true},
		{latency - 2*time.Millisecond, 0.98, false},
		{latency - 2500*time.Microsecond, 0.975, false},
		{latency * 10 / 12, 0, false},
	} {
		c := with(t, base, func(_ int, task *fleet.Task) {
			task.Deadline, task.Decay, task.Weight = x.deadline, fleet.PaperSoft(), 2
		})
		o := only(t, c, request)
		if d := o.Utility - 2*x.factor; d > 1e-9 || d < -1e-9 || o.Met != x.met {
			t.Errorf("deadline %v, latency %v: utility %v, met %t; want %v, %t", x.deadline, latency, o.Utility, o.Met, 2*x.factor, x.met)
		}
	}
}

// Work is conserved: whatever is preempted and recomputed, the engines produce
// exactly the tokens asked for, and all of them.
func TestWorkIsConserved(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		c := twoByTwo(t)
		c.Engine.Scheduler = scheduler
		e := make2(t, c)
		if _, err := e.Reset(5); err != nil {
			t.Fatal(err)
		}
		var asked, produced, preemptions uint64
		for n, over := 0, false; !over; n++ {
			asked += uint64(e.Arrival().OutputTokens)
			step, err := e.Step(n / 3 % 2)
			if err != nil {
				t.Fatal(err)
			}
			over = step.Terminated
		}
		for h := range c.Table.Hosts {
			for i := range c.Table.ReplicasOn(h) {
				x := e.Simulator().Host(h).Engine(i)
				produced += x.Produced()
				preemptions += x.Preemptions()
			}
		}
		if produced != asked {
			t.Errorf("%s: %d tokens produced, %d asked for", scheduler, produced, asked)
		}
		if preemptions == 0 {
			t.Errorf("%s: nothing is preempted: the test lost its pressure", scheduler)
		}
	}
}

// A step that is refused leaves no lease behind: the same request may take
// another way, and the episode ends with empty books.
func TestRefusedStepLeavesNothing(t *testing.T) {
	c := twoByTwo(t)
	c.Open = of(workloads.Arrival{PromptTokens: 1500, OutputTokens: 5}, workloads.Arrival{At: time.Second, PromptTokens: 5, OutputTokens: 5})
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(1); err == nil { // larger than the large variant's cache
		t.Fatal("a prompt above the KV cache is taken")
	}
	if _, err := e.Step(0); err != nil {
		t.Fatal(err)
	}
	if n := e.View().VariantInFlight(1); n != 0 {
		t.Errorf("%d in flight on the variant that refused", n)
	}
	step, err := e.Step(1)
	if err != nil || !step.Terminated {
		t.Fatalf("%+v, %v", step, err)
	}
}

// Time that runs back in a workload is an error, not a shorter latency.
func TestWorkloadThatRunsBackIsRefused(t *testing.T) {
	c := twoByTwo(t)
	c.Open = of(workloads.Arrival{At: time.Second, PromptTokens: 5, OutputTokens: 5}, workloads.Arrival{PromptTokens: 5, OutputTokens: 5})
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(0); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Step(0); err == nil {
		t.Error("a request before the one before it is taken")
	}
}

// An answer without output tokens is there when its prompt has been computed; its latency
// is the whole, and it is judged by the deadline for its end where there is one.
func TestAnswersWithoutOutputTokens(t *testing.T) {
	for _, total := range []time.Duration{0, time.Nanosecond, time.Hour} {
		c := with(t, twoByTwo(t), func(_ int, task *fleet.Task) { task.Deadline, task.Total = time.Minute, total })
		o := only(t, c, workloads.Arrival{At: time.Second, PromptTokens: 300})
		if o.Latency() != o.Finished-time.Second || o.FirstToken != o.Finished || o.Latency() <= 0 {
			t.Errorf("latency %v of an answer from 1s to %v, first token at %v", o.Latency(), o.Finished, o.FirstToken)
		}
		if want := total != time.Nanosecond; o.Met != want || (o.Utility > 0) != want {
			t.Errorf("deadline %v for the end: met %v, utility %v", total, o.Met, o.Utility)
		}
	}
}

// Each deadline is held against its own time, to the nanosecond, and a request's own stands
// in for its task's.
func TestDeadlinesToTheFirstTokenAndTheEnd(t *testing.T) {
	request := workloads.Arrival{At: time.Second, PromptTokens: 90, OutputTokens: 20}
	took := only(t, twoByTwo(t), request).Took()
	for _, c := range []struct {
		name         string
		first, total time.Duration // of the task
		own          time.Duration // of the request to its first token
		met          bool
	}{
		{"both", took.FirstToken, took.Total, 0, true},
		{"first token late", took.FirstToken - 1, took.Total, 0, false},
		{"end late", took.FirstToken, took.Total - 1, 0, false},
		{"a request with more time", took.FirstToken - 1, took.Total, took.FirstToken, true},
		{"a request with less", took.FirstToken, took.Total, took.FirstToken - 1, false},
	} {
		request.FirstToken = c.own
		o := only(t, with(t, twoByTwo(t), func(_ int, task *fleet.Task) {
			task.Deadline, task.FirstToken, task.Total, task.Decay = time.Hour, c.first, c.total, nil
		}), request)
		if o.Met != c.met || (o.Utility > 0) != c.met {
			t.Errorf("%s: met %v, utility %v", c.name, o.Met, o.Utility)
		}
	}
}
