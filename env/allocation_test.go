package env_test

import (
	"testing"

	"gearshift/workloads"
)

// A longer episode allocates no more than a shorter one: nothing for each request, nor
// for each of its events. What grows does so with the most that is in flight.
func TestEpisodesAllocateNothingPerRequest(t *testing.T) {
	const short, long = 500, 4000
	c := twoByTwo(t)
	c.Check = false
	arrivals := *poisson(1, 6, long)
	c.Open = func(uint64) (workloads.Stream, error) {
		l := arrivals
		return &l, nil
	}
	allocated := func(decisions int) float64 {
		c.Limit = decisions
		e := make2(t, c)
		return testing.AllocsPerRun(3, func() {
			if _, err := e.Reset(1); err != nil {
				t.Fatal(err)
			}
			for n := 0; ; n++ {
				step, err := e.Step(n / 8 % 2)
				if err != nil {
					t.Fatal(err)
				}
				if step.Terminated || step.Truncated {
					return
				}
			}
		})
	}
	a, b := allocated(short), allocated(long)
	if perRequest := (b - a) / (long - short); perRequest > 0.01 {
		t.Errorf("%v allocations of %d requests, %v of %d: %.3f for each more", a, short, b, long, perRequest)
	}
}
