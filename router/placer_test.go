package router_test

import (
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
)

// placer is a policy that chooses the replica, made of a function.
type placer func(v *fleet.View) int

func (placer) Name() string { return "placer" }
func (placer) Scratch() int { return 3 }
func (placer) Decide(*fleet.View, *fleet.Request, []float32) int {
	panic("a placer is asked to place")
}
func (p placer) Place(v *fleet.View, _ *fleet.Request, scratch []float32) int {
	scratch[2] = 1 // the scratch has the length asked for
	return p(v)
}

// A placer's replica is taken as it is, and no balancer is asked but for a pinned
// variant.
func TestPlacerChoosesTheReplica(t *testing.T) {
	asked := 0
	core := newCore(t, 0, func(c *router.Config) {
		c.Balancer = picker(func(_ *fleet.View, variant int) int { asked++; return variant })
	})
	setPolicy(t, core, placer(func(*fleet.View) int { return 8 }))
	choice, err := route(core, &fleet.Request{}, 0)
	if err != nil || choice.Replica != 8 || choice.Variant != 2 || choice.Policy != "placer" || choice.Fallback || asked != 0 {
		t.Errorf("%+v, %v, the balancer asked %d times", choice, err, asked)
	}
	choice, err = core.Route(1, &fleet.Request{}, 0, nil)
	if err != nil || choice.Replica != 1 || choice.Policy != router.Pinned || asked != 1 {
		t.Errorf("pinned: %+v, %v, the balancer asked %d times", choice, err, asked)
	}
}

// A placement that cannot be followed leaves the request to the fallback and the
// balancer.
func TestPlacerThatFails(t *testing.T) {
	for reason, place := range map[string]placer{
		router.ReasonNoChoice:    func(*fleet.View) int { return -1 },
		router.ReasonOutOfRange:  func(*fleet.View) int { return 12 },
		router.ReasonUnavailable: func(*fleet.View) int { return 2 }, // the test takes it down
		router.ReasonPanic:       func(v *fleet.View) int { return int(v.InFlight[99]) },
	} {
		core := newCore(t, 0, nil)
		setPolicy(t, core, place)
		core.Ledger().SetUp(2, false)
		choice, err := route(core, &fleet.Request{}, 0)
		if err != nil || !choice.Fallback || choice.Reason != reason || choice.Variant != 1 || choice.Policy != "static:opt-1.3b" {
			t.Errorf("want a fallback for %q, got %+v, %v", reason, choice, err)
		}
	}
}

// A fallback may place, too.
func TestFallbackPlaces(t *testing.T) {
	core := newCore(t, 0, func(c *router.Config) { c.Fallback = placer(func(*fleet.View) int { return 7 }) })
	choice, err := route(core, &fleet.Request{}, 0)
	if err != nil || choice.Replica != 7 || choice.Variant != 1 || choice.Policy != "placer" || choice.Reason != router.ReasonMissing {
		t.Errorf("%+v, %v", choice, err)
	}
}
