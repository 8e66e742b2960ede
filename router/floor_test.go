package router_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gearshift/internal/race"
	"gearshift/router"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
)

// floored is a request for hellaswag, of which the three variants' qualities are
// 0.45, 0.78 and 1.
func floored(quality float64) *fleet.Request { return &fleet.Request{MinQuality: quality} }

func TestTheFloorRaisesTheChoice(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  router.Policy
		change  func(*router.Config)
		down    []int // variants
		floor   float64
		variant int
		by      string
		reason  string
	}{
		{name: "a choice that reaches it stands", policy: always(1), floor: 0.78, variant: 1, by: "always"},
		{name: "so does a better one", policy: always(2), floor: 0.5, variant: 2, by: "always"},
		{name: "one below gives way to the first that reaches it", policy: always(0), floor: 0.5, variant: 1, by: router.Raised, reason: router.ReasonFloor},
		{name: "or to the next where that is down", policy: always(0), down: []int{1}, floor: 0.5, variant: 2, by: router.Raised, reason: router.ReasonFloor},
		{name: "or has no room by the gate", policy: always(0), change: roomOn(0, 2), floor: 0.5, variant: 2, by: router.Raised, reason: router.ReasonFloor},
		{name: "the gate degrades no further", policy: always(2), change: roomOn(0, 1), floor: 0.5, variant: 1, by: router.Degraded, reason: router.ReasonLate},
		{name: "and rather goes up", policy: always(1), change: roomOn(0, 2), floor: 0.5, variant: 2, by: router.Degraded, reason: router.ReasonLate},
		{name: "a placement is raised too", policy: placer(func(*fleet.View) int { return 0 }), floor: 0.9, variant: 2, by: router.Raised, reason: router.ReasonFloor},
		{name: "so is the fallback's choice", floor: 0.9, variant: 2, by: router.Raised, reason: router.ReasonMissing},
		{name: "and the last resort", change: func(c *router.Config) { c.Fallback = always(-1) }, floor: 0.9, variant: 2, by: router.Raised, reason: router.ReasonMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			core := newCore(t, 0, c.change)
			setPolicy(t, core, c.policy)
			for _, v := range c.down {
				for _, i := range core.Table().ReplicasOf(v) {
					core.Ledger().SetUp(i, false)
				}
			}
			choice, err := route(core, floored(c.floor), 0)
			if err != nil {
				t.Fatal(err)
			}
			if choice.Variant != c.variant || core.Table().Replicas[choice.Replica].Variant != c.variant ||
				choice.Policy != c.by || choice.Fallback != (c.reason != "") || choice.Reason != c.reason {
				t.Errorf("%+v; want variant %d by %q for %q", choice, c.variant, c.by, c.reason)
			}
			if want := map[bool]float64{false: 1}[c.by == router.Raised]; choice.Propensity != want {
				t.Errorf("propensity %v, want %v", choice.Propensity, want)
			}
		})
	}
}

// roomOn is a gate with room on the variants' replicas alone.
func roomOn(variants ...int) func(*router.Config) {
	return func(c *router.Config) {
		c.Gate = opens(func(v *fleet.View, replica int) bool {
			return slices.Contains(variants, v.Table.Replicas[replica].Variant)
		})
	}
}

// Where a larger variant is worse at the task, the floor goes by quality, not by size.
func TestTheFloorIsOfTheTask(t *testing.T) {
	core := newCore(t, 0, func(c *router.Config) {
		table := conformance.Fleet(0)
		table.Tasks[1].Quality = []float64{0.9, 0.6, 0.8}
		c.Ledger, c.Fallback = fleet.NewLedger(table), static(t, table, 1)
	})
	for floor, want := range map[float64]int{0.5: 1, 0.7: 0, 0.85: 0} {
		setPolicy(t, core, always(1))
		if choice, err := route(core, &fleet.Request{Task: 1, MinQuality: floor}, 0); err != nil || choice.Variant != want {
			t.Errorf("floor of %v: %+v, %v; want variant %d", floor, choice, err, want)
		}
	}
}

// What is below the floor is as good as not there: it has no place and no room, and
// is not up.
func TestBelowTheFloorNothingIsBegun(t *testing.T) {
	want := func(core *router.Core, want error) {
		t.Helper()
		if choice, err := route(core, floored(0.9), 0); !errors.Is(err, want) {
			t.Errorf("%+v, %v; want %v", choice, err, want)
		}
		if choice, err := route(core, floored(0), 0); err != nil {
			t.Errorf("without a floor: %+v, %v", choice, err)
		}
	}
	core := newCore(t, 1, nil)
	large := core.Table().ReplicasOf(2)
	for range large {
		if _, err := route(core, floored(0.9), 0); err != nil {
			t.Fatal(err)
		}
	}
	want(core, router.ErrSaturated)
	for _, i := range large {
		core.Ledger().SetUp(i, false)
	}
	want(core, router.ErrNoReplica)
	want(newCore(t, 0, roomOn(0, 1)), router.ErrLate)
	if _, err := newCore(t, 0, nil).Route(0, floored(0.9), 0, nil); !errors.Is(err, router.ErrNoReplica) {
		t.Errorf("pinned below the floor: %v", err)
	}
}

// In a large fleet a sample in which none that reaches the floor has a place makes way
// for the whole.
func TestTheFloorIsSoughtInTheWholeFleet(t *testing.T) {
	core := newCore(t, 0, func(c *router.Config) {
		table := conformance.FleetOf(40, 0)
		c.Ledger, c.Fallback = fleet.NewLedger(table), static(t, table, 0)
	})
	large := core.Table().ReplicasOf(2)
	for _, i := range large[:len(large)-1] {
		core.Ledger().SetUp(i, false)
	}
	for range 20 {
		if choice, err := route(core, floored(1), 0); err != nil || choice.Replica != large[len(large)-1] {
			t.Fatalf("%+v, %v", choice, err)
		}
	}
}

// Of two policies, each is raised by itself; what was raised was nobody's draw.
func TestTrialsAreRaised(t *testing.T) {
	for _, c := range []struct {
		charge, trial int
		share         float64
		variant       int
		by            string
		propensity    float64
	}{
		{0, 2, 0, 1, router.Raised, 0},
		{0, 2, 1, 2, "next@2", 1},
		{2, 0, 0, 2, "always", 1},
		{2, 0, 1, 1, router.Raised, 0},
		{1, 0, 1, 1, router.Raised, 0}, // both end there
	} {
		core := newCore(t, 0, whole)
		setPolicy(t, core, always(c.charge))
		if err := core.Try(named{always(c.trial), "next@2"}, c.share); err != nil {
			t.Fatal(err)
		}
		choice, err := route(core, floored(0.5), 0)
		if err != nil || choice.Variant != c.variant || choice.Policy != c.by || choice.Propensity != c.propensity {
			t.Errorf("%+v: %+v, %v", c, choice, err)
		}
		trial, _ := core.Trial()
		if n := trial.Choices[0][max(1, c.charge)][max(1, c.trial)]; n != 1 {
			t.Errorf("%+v: choices %v", c, trial.Choices[0])
		}
	}
}

// In a crowd, where a place is lost and all is chosen anew, a trial stays the one that
// was raised.
func TestATrialIsRaisedInACrowd(t *testing.T) {
	var core *router.Core
	crowd := 3
	core = newCore(t, 0, func(c *router.Config) {
		c.Balancer = picker(func(v *fleet.View, variant int) int {
			if crowd > 0 {
				crowd--
				core.Ledger().Begin(0, 0)
			}
			return v.ReplicasOf(variant)[0]
		})
	})
	setPolicy(t, core, always(2))
	if err := core.Try(named{always(0), "next@2"}, 1); err != nil {
		t.Fatal(err)
	}
	if choice, err := route(core, floored(0.5), 0); err != nil || choice.Policy != router.Raised || choice.Variant != 1 || !choice.Trial {
		t.Errorf("%+v, %v", choice, err)
	}
}

func TestRaisingAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the pool of decisions forgets at random under the race detector")
	}
	core := newCore(t, 512, func(c *router.Config) {
		whole(c)
		roomOn(0, 2)(c)
	})
	setPolicy(t, core, static(t, core.Table(), 0))
	r := floored(0.5)
	r.PromptTokens = 90
	var now time.Duration
	if n := testing.AllocsPerRun(500, func() {
		now += time.Millisecond
		choice, err := route(core, r, now)
		if err != nil || choice.Policy != router.Raised || choice.Variant != 2 {
			t.Fatal(choice, err)
		}
		choice.Lease.End()
	}); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}
