package router_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
)

// opens is a gate with room on the replicas for which it is true.
type opens func(v *fleet.View, replica int) bool

func (g opens) Room(v *fleet.View, _ *fleet.Request, replica int) bool { return g(v, replica) }

// gated is a core of the paper's fleet whose policy always wants the middle variant
// of three, with room on the replicas listed.
func gated(t *testing.T, limit int, room ...int) *router.Core {
	core := newCore(t, limit, func(c *router.Config) {
		c.Balancer = picker(func(v *fleet.View, variant int) int { return v.ReplicasOf(variant)[0] })
		c.Gate = opens(func(_ *fleet.View, replica int) bool { return slices.Contains(room, replica) })
	})
	setPolicy(t, core, static(t, core.Table(), 1))
	return core
}

func TestTheGateFindsRoomNearTheChosenVariant(t *testing.T) {
	table := newCore(t, 0, nil).Table()
	of := table.ReplicasOf
	for _, c := range []struct {
		name    string
		room    []int
		replica int
		policy  string
	}{
		{"as chosen", of(1), -1, "static:opt-1.3b"},
		{"another replica of the variant", of(1)[3:], of(1)[3], "static:opt-1.3b"},
		{"a smaller variant before a larger one", []int{of(0)[2], of(2)[1]}, of(0)[2], router.Degraded},
		{"a larger variant where nothing smaller has room", of(2)[1:2], of(2)[1], router.Degraded},
	} {
		t.Run(c.name, func(t *testing.T) {
			core := gated(t, 0, c.room...)
			choice, err := route(core, &fleet.Request{}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if c.replica >= 0 && choice.Replica != c.replica || choice.Variant != table.Replicas[choice.Replica].Variant {
				t.Errorf("variant %d on replica %d, want replica %d", choice.Variant, choice.Replica, c.replica)
			}
			// What stays with the policy's variant is no fallback.
			reason := ""
			if c.policy == router.Degraded {
				reason = router.ReasonLate
			}
			if choice.Policy != c.policy || choice.Fallback != (reason != "") || choice.Reason != reason {
				t.Errorf("chosen by %q, want %q; fallback %v (%s)", choice.Policy, c.policy, choice.Fallback, choice.Reason)
			}
			choice.Lease.End()
		})
	}
}

// TestOneReplicaAloneCanAnswer has a request go to its own replica or to none, whatever
// the balancer and the gate would have of others.
func TestOneReplicaAloneCanAnswer(t *testing.T) {
	core := newCore(t, 1, func(c *router.Config) {
		c.Balancer = picker(func(v *fleet.View, variant int) int { return v.ReplicasOf(variant)[0] })
	})
	of := core.Table().ReplicasOf(1)
	only := of[2]
	r := &fleet.Request{Only: only + 1}
	choice, err := core.Route(1, r, time.Second, nil)
	if err != nil || choice.Replica != only || choice.Variant != 1 || choice.Policy != router.Pinned || choice.Fallback {
		t.Fatalf("%+v, %v; want replica %d", choice, err, only)
	}
	if _, err := core.Route(1, r, time.Second, nil); !errors.Is(err, router.ErrSaturated) {
		t.Errorf("full: error %v, want %v", err, router.ErrSaturated)
	}
	choice.Lease.End()
	core.Ledger().SetUp(only, false)
	if _, err := core.Route(1, r, time.Second, nil); !errors.Is(err, router.ErrNoReplica) {
		t.Errorf("down: error %v, want %v", err, router.ErrNoReplica)
	}
	core = gated(t, 0, of[0], of[1], of[3])
	if _, err := core.Route(1, r, time.Second, nil); !errors.Is(err, router.ErrLate) {
		t.Errorf("late: error %v, want %v", err, router.ErrLate)
	}
	if n := core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestNothingIsBegunWhereTheGateSeesNoRoom(t *testing.T) {
	core := gated(t, 0)
	if _, err := route(core, &fleet.Request{}, time.Second); !errors.Is(err, router.ErrLate) {
		t.Errorf("error %v, want %v", err, router.ErrLate)
	}
	if n := core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
	large := core.Table().ReplicasOf(2)
	core = gated(t, 0, large...)
	if _, err := core.Route(0, &fleet.Request{}, time.Second, nil); !errors.Is(err, router.ErrLate) {
		t.Errorf("a pinned variant without room: error %v, want %v", err, router.ErrLate)
	}
	if choice, err := core.Route(2, &fleet.Request{}, time.Second, nil); err != nil || choice.Variant != 2 || choice.Policy != router.Pinned {
		t.Errorf("a pinned variant with room: %+v, %v", choice, err)
	}
}

// A full fleet and one that is down are told apart from one that is late.
func TestPlacesComeBeforeTheGate(t *testing.T) {
	core := gated(t, 1, 0)
	choice, err := route(core, &fleet.Request{}, 0)
	if err != nil || choice.Replica != 0 {
		t.Fatalf("%+v, %v", choice, err)
	}
	if _, err := route(core, &fleet.Request{}, 0); !errors.Is(err, router.ErrLate) {
		t.Errorf("the only replica with room is full: error %v, want %v", err, router.ErrLate)
	}
	for i := range core.Table().Replicas {
		core.Ledger().SetUp(i, false)
	}
	if _, err := route(core, &fleet.Request{}, 0); !errors.Is(err, router.ErrNoReplica) {
		t.Errorf("all are down: error %v, want %v", err, router.ErrNoReplica)
	}
}

// In a large fleet a sample without room makes way for the whole.
func TestTheGateIsAskedOfTheWholeFleet(t *testing.T) {
	table := conformance.FleetOf(40, 0)
	last := len(table.Replicas) - 1
	core, err := router.New(router.Config{
		Ledger: fleet.NewLedger(table), Fallback: static(t, table, 0), Balancer: picker(func(v *fleet.View, variant int) int {
			return v.ReplicasOf(variant)[0]
		}),
		Gate: opens(func(_ *fleet.View, replica int) bool { return replica == last }),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		choice, err := route(core, &fleet.Request{}, 0)
		if err != nil || choice.Replica != last {
			t.Fatalf("replica %d, %v; want %d, the only one with room", choice.Replica, err, last)
		}
	}
}

// Another gate holds from the next request on, and stays through changes of policy.
func TestAnotherGateTakesOver(t *testing.T) {
	core := gated(t, 0)
	of := core.Table().ReplicasOf
	for _, c := range []struct {
		gate    router.Gate
		replica int // −1: late
	}{
		{opens(func(_ *fleet.View, replica int) bool { return replica == of(2)[1] }), of(2)[1]},
		{opens(func(*fleet.View, int) bool { return false }), -1},
		{nil, of(1)[0]},
	} {
		core.SetGate(c.gate)
		setPolicy(t, core, static(t, core.Table(), 1))
		choice, err := route(core, &fleet.Request{}, time.Second)
		if c.replica < 0 && !errors.Is(err, router.ErrLate) || c.replica >= 0 && (err != nil || choice.Replica != c.replica) {
			t.Errorf("replica %d, %v; want %d", choice.Replica, err, c.replica)
		}
	}
}

// The rate estimate hears of each request once, however often it is tried.
func TestARequestArrivesOnce(t *testing.T) {
	core := gated(t, 0)
	var v fleet.View
	for n := range 6 {
		at := time.Duration(n) * time.Second
		_, _ = route(core, &fleet.Request{}, at)
		core.Ledger().View(at, &v)
		before := v.Rate
		for range 5 {
			_, _ = core.Route(-1, &fleet.Request{}, at+time.Millisecond, nil)
		}
		if core.Ledger().View(at, &v); v.Rate != before {
			t.Fatalf("the rate went from %v to %v by trying again", before, v.Rate)
		}
	}
}

// A place for a request of the router's own needs a free one with room by the gate. Policies see that it is
// taken, and neither an arrival nor a recent request.
func TestASparePlace(t *testing.T) {
	table := newCore(t, 0, nil).Table()
	largest := len(table.Variants) - 1
	of := table.ReplicasOf(largest)
	core := gated(t, 1, of[1], of[2])
	var before, after fleet.View
	core.Ledger().View(time.Second, &before)
	for _, want := range []int{of[1], of[2], -1} {
		_, replica, ok := core.Spare(largest, &fleet.Request{}, time.Second)
		if ok != (want >= 0) || replica != want {
			t.Errorf("replica %d, %v; want %d", replica, ok, want)
		}
	}
	core.Ledger().View(time.Second, &after)
	if after.InFlight[of[1]] != 1 || after.InFlight[of[2]] != 1 || after.Rate != before.Rate || after.Recent != before.Recent {
		t.Errorf("in flight %v, rate %v, recent %v", after.InFlight, after.Rate, after.Recent)
	}
	for name, c := range map[string]struct {
		variant int
		request fleet.Request
	}{
		"no variant": {-1, fleet.Request{}}, "an unknown variant": {largest + 1, fleet.Request{}}, "an unknown task": {0, fleet.Request{Task: -1}},
		"without its replicas": {largest, fleet.Request{Without: of}},
	} {
		if _, _, ok := newCore(t, 0, nil).Spare(c.variant, &c.request, 0); ok {
			t.Errorf("%s has a place", name)
		}
	}
	free := newCore(t, 0, nil)
	lease, _, ok := free.Spare(0, &fleet.Request{}, 0)
	if !ok || !lease.End() || free.Ledger().InFlight() != 0 {
		t.Error("without a gate there is no place that can be given back")
	}
}
