package env_test

import (
	"slices"
	"testing"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// placed is [twoByTwo] with replicas in other states at the start, and its second task
// without the small variant.
func placed(t *testing.T, initial ...fleet.State) env.Config {
	t.Helper()
	c := twoByTwo(t)
	tasks, replicas := slices.Clone(c.Table.Tasks), slices.Clone(c.Table.Replicas)
	tasks[1].Quality, tasks[1].Without = []float64{0, 1}, 1
	for i, s := range initial {
		replicas[i].Initial = s
	}
	table, err := fleet.NewTable(tasks, c.Table.Variants, c.Table.Hosts, replicas)
	if err != nil {
		t.Fatal(err)
	}
	c.Table, c.Encoder = table, nil
	return c
}

// The mask allows what is loaded and answers the request's task, and nothing else; and so do
// rules on the same view.
func TestMaskFollowsPlacement(t *testing.T) {
	for _, x := range []struct {
		name    string
		initial []fleet.State
		masks   [2][]bool // by task
	}{
		{"all up", nil, [2][]bool{{true, true}, {false, true}}},
		{"one of each cold", []fleet.State{fleet.Cold, fleet.Up, fleet.Up, fleet.Cold}, [2][]bool{{true, true}, {false, true}}},
		{"no small one", []fleet.State{fleet.Cold, fleet.Warm, fleet.Up, fleet.Cold}, [2][]bool{{false, true}, {false, true}}},
	} {
		c := placed(t, x.initial...)
		c.Open = func(seed uint64) (workloads.Stream, error) { return poisson(seed, 5, 200), nil }
		e := make2(t, c)
		if _, err := e.Reset(1); err != nil {
			t.Fatal(err)
		}
		small, err := policy.NewStatic(c.Table, 0)
		if err != nil {
			t.Fatal(err)
		}
		mask, seen := make([]bool, 2), [2]int{}
		for done := false; !done; {
			task := e.Request().Task
			seen[task]++
			if e.ActionMask(mask); !slices.Equal(mask, x.masks[task]) {
				t.Fatalf("%s: task %d has mask %v, want %v", x.name, task, mask, x.masks[task])
			}
			if !mask[0] {
				if _, err := e.Step(0); err == nil {
					t.Fatalf("%s: a step that the mask forbids is taken", x.name)
				}
			}
			step, err := e.Step(small.Decide(e.View(), e.Request(), nil))
			if err != nil {
				t.Fatalf("%s: %v", x.name, err)
			}
			for _, o := range step.Info.Outcomes {
				if !c.Table.Answers(o.Request.Task, o.Variant) || x.initial != nil && x.initial[o.Replica] != fleet.Up {
					t.Fatalf("%s: replica %d has answered task %d", x.name, o.Replica, o.Request.Task)
				}
			}
			done = step.Terminated
		}
		if seen[0] == 0 || seen[1] == 0 {
			t.Errorf("%s: %v requests by task", x.name, seen)
		}
	}
}
