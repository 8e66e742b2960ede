package router_test

import (
	"errors"
	"testing"

	"gearshift/router"
)

// A policy that is put in charge once more does not become its own way back.
func TestPromotedTwiceTheWayBackStays(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, named{always(0), "old@1"})
	again := map[string]func() error{
		"at once": func() error { return core.SetPolicy(named{always(2), "new@2"}) },
		"from trial": func() error {
			return errors.Join(core.Try(named{always(2), "new@2"}, 0.5), core.Promote())
		},
	}
	for how, promote := range again {
		for range 2 {
			if err := promote(); err != nil {
				t.Fatal(err)
			}
			if name, ok := core.Earlier(); !ok || name != "old@1" || core.PolicyName() != "new@2" {
				t.Errorf("%s: %q was before %s, want old@1", how, name, core.PolicyName())
			}
		}
	}
	if err := core.Rollback(); err != nil || core.PolicyName() != "old@1" {
		t.Errorf("back to %s: %v", core.PolicyName(), err)
	}
}

// There is a way back to the fallback once it has routed, however a policy came in.
func TestRollbackToTheFallback(t *testing.T) {
	for how, promote := range map[string]func(*router.Core) error{
		"at once":    func(c *router.Core) error { return c.SetPolicy(always(2)) },
		"from trial": func(c *router.Core) error { return errors.Join(c.Try(always(2), 0), c.Promote()) },
	} {
		core := newCore(t, 0, nil)
		ask(t, core, 1, "")
		if err := promote(core); err != nil {
			t.Fatal(err)
		}
		if name, ok := core.Earlier(); name != "" || !ok {
			t.Errorf("%s: %q was before, %v; want the fallback", how, name, ok)
		}
		if err := core.Rollback(); err != nil || core.PolicyName() != "static:opt-1.3b" {
			t.Errorf("%s: back to %s: %v", how, core.PolicyName(), err)
		}
	}
	core := newCore(t, 0, nil)
	setPolicy(t, core, always(2))
	if name, ok := core.Earlier(); ok {
		t.Errorf("from the start %q was before", name)
	}
}
