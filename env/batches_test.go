package env_test

import (
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/envtest"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// classifying is the fleet with engines that run batches to their end, and a kind of input
// for each task.
func classifying(t *testing.T) env.Config {
	t.Helper()
	encoder := twoByTwo(t).Encoder
	c := with(t, twoByTwo(t), func(i int, task *fleet.Task) { task.Kind = []string{"image", "text"}[i] })
	table, err := profile.NewBatches(map[string]map[int]float64{"image": {1: 8, 4: 14}, "text": {1: 3, 8: 10}})
	if err != nil {
		t.Fatal(err)
	}
	c.Encoder = encoder
	c.Profiles = make([]*profile.Profile, len(c.Table.Replicas))
	c.KVTokens = make([]int, len(c.Table.Replicas))
	for i := range c.Profiles {
		c.Profiles[i] = &profile.Profile{Overhead: 1, Contention: 0.3, Batches: table}
	}
	c.Forecaster = profile.NewForecaster(c.Profiles).Expecting(make([]float64, len(c.Table.Tasks)))
	return c
}

// An answer without output tokens is there at the end of its batch, all at once, after the
// time of its task's kind of input.
func TestAnswersOfOneBatch(t *testing.T) {
	for task, want := range []time.Duration{8 * time.Millisecond, 3 * time.Millisecond} {
		o := only(t, classifying(t), workloads.Arrival{At: time.Second, Task: task, PromptTokens: 90})
		if o.Latency() != want || o.FirstToken != o.Finished || o.OutputTokens != 0 {
			t.Errorf("task %d: %+v takes %v, want %v", task, o, o.Latency(), want)
		}
	}
}

func TestEnvironmentOfBatches(t *testing.T) {
	c := classifying(t)
	c.Check = true
	shape := workloads.Shape{
		Prompt: workloads.Lengths{Distribution: "uniform", Min: 10, Max: 100}, Output: workloads.Lengths{Distribution: "none"},
	}
	arrivals, err := workloads.NewPoisson(300)
	if err != nil {
		t.Fatal(err)
	}
	c.Open = func(seed uint64) (workloads.Stream, error) {
		return workloads.New(arrivals, c.Table.Tasks, shape, seed, workloads.Limit{Requests: 400})
	}
	e := make2(t, c)
	if err := envtest.Check(e, 1, 500); err != nil {
		t.Error(err)
	}
}
