package env_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/workloads"
)

// onReplicas returns the ends of the arrivals, each on its replica.
func onReplicas(t *testing.T, c env.Config, arrivals []workloads.Arrival, replicas []int) (ended []env.Outcome) {
	t.Helper()
	c.Open = of(arrivals...)
	e := make2(t, c)
	if _, err := e.Reset(3); err != nil {
		t.Fatal(err)
	}
	for _, replica := range replicas {
		step, err := e.Place(replica)
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, step.Info.Outcomes...)
	}
	slices.SortFunc(ended, func(a, b env.Outcome) int { return a.Decision - b.Decision })
	return ended
}

func earned(ended []env.Outcome) (sum float64) {
	for _, o := range ended {
		sum += o.Utility
	}
	return sum
}

// In a burst that has all come before any has ended, a request's difference is what all earn less what they
// earn in a run without it; to ask for it changes nothing else.
func TestDifferenceIsThatOfARunWithoutTheRequest(t *testing.T) {
	c := twoByTwo(t)
	var arrivals []workloads.Arrival
	var replicas []int
	for i := range 24 {
		arrivals = append(arrivals, workloads.Arrival{At: time.Second + time.Duration(i)*time.Millisecond, Task: i % 2, PromptTokens: 90 + 10*i, OutputTokens: 90 + i, Rate: 1})
		replicas = append(replicas, []int{2, 2, 0, 3}[i%4])
	}
	asked := c
	asked.Difference = true
	all := onReplicas(t, c, arrivals, replicas)
	var harmful int
	for i, o := range onReplicas(t, asked, arrivals, replicas) {
		rest := onReplicas(t, c, slices.Delete(slices.Clone(arrivals), i, i+1), slices.Delete(slices.Clone(replicas), i, i+1))
		if want := earned(all) - earned(rest); math.Abs(o.Marginal-want) > 1e-9 {
			t.Errorf("request %d: %v, a run without it earns %v less", i, o.Marginal, want)
		}
		if o.Marginal < 0 {
			harmful++
		}
		if o.Marginal = 0; !reflect.DeepEqual(o, all[i]) {
			t.Errorf("request %d ends as %+v, and as %+v without being asked for it", i, o, all[i])
		}
	}
	if harmful == 0 {
		t.Error("none takes more than it earns: too easy a test")
	}
}
