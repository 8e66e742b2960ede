package router_test

import (
	"errors"
	"testing"

	"gearshift/router"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
)

// gapped is a core on [conformance.FleetWithGaps], of which task 0 is answered by the
// variants 1 and 2, task 1 by variant 1, task 2 by the variants 0 and 1, and task 3 by all.
func gapped(t *testing.T, change func(*router.Config)) *router.Core {
	return newCore(t, 0, func(c *router.Config) {
		table := conformance.FleetWithGaps(0)
		c.Ledger, c.Fallback = fleet.NewLedger(table), static(t, table, 1)
		if change != nil {
			change(c)
		}
	})
}

// Nothing chooses a variant that does not answer the task: no policy, no fallback, no last
// resort, no gate and no policy on trial.
func TestTasksAreAnsweredByTheirVariants(t *testing.T) {
	for name, c := range map[string]struct {
		policy, trial router.Policy
		change        func(*router.Config)
	}{
		"the smallest":        {policy: always(0)},
		"the largest":         {policy: always(2)},
		"a placement":         {policy: placer(func(*fleet.View) int { return 0 })},
		"no policy":           {},
		"a fallback too":      {change: func(c *router.Config) { c.Fallback = always(0) }},
		"the last resort":     {change: func(c *router.Config) { c.Fallback = always(-1) }},
		"room on the largest": {policy: always(1), change: roomOn(1, 2)},
		"a trial":             {policy: always(1), trial: always(2)},
	} {
		t.Run(name, func(t *testing.T) {
			core := gapped(t, c.change)
			setPolicy(t, core, c.policy)
			if c.trial != nil {
				if err := core.Try(c.trial, .5); err != nil {
					t.Fatal(err)
				}
			}
			for n := range 80 {
				r := &fleet.Request{Task: n % 4}
				choice, err := route(core, r, 0)
				if err != nil {
					t.Fatal(err)
				}
				if !core.Table().Answers(r.Task, choice.Variant) || core.Table().Replicas[choice.Replica].Variant != choice.Variant {
					t.Fatalf("task %d got variant %d, by %s because of %q", r.Task, choice.Variant, choice.Policy, choice.Reason)
				}
			}
		})
	}
}

// A task is without hope when those that answer it are, whatever else is up.
func TestTaskWhoseVariantsAreDown(t *testing.T) {
	core := gapped(t, nil)
	for _, i := range core.Table().ReplicasOf(1) {
		core.Ledger().Place(i, fleet.Cold)
	}
	if _, err := route(core, &fleet.Request{Task: 1}, 0); !errors.Is(err, router.ErrNoReplica) {
		t.Errorf("error %v, want %v", err, router.ErrNoReplica)
	}
	if choice, err := route(core, &fleet.Request{Task: 0}, 0); err != nil || choice.Variant != 2 {
		t.Errorf("variant %d, error %v; want the other that answers", choice.Variant, err)
	}
	if _, err := core.Route(2, &fleet.Request{Task: 1}, 0, nil); !errors.Is(err, router.ErrNoReplica) {
		t.Errorf("a pinned variant that does not answer: error %v, want %v", err, router.ErrNoReplica)
	}
	core.Ledger().Place(core.Table().ReplicasOf(1)[2], fleet.Up)
	if choice, err := route(core, &fleet.Request{Task: 1}, 0); err != nil || choice.Replica != core.Table().ReplicasOf(1)[2] {
		t.Errorf("replica %d, error %v; want the one that has come up", choice.Replica, err)
	}
}
