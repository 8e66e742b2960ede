package router_test

import (
	"errors"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/queue"
)

// sleeping returns a backlog before two sizes, of which the large one sleeps; the small one answers no request that is
// pinned to the other, or has a floor.
type sleeping struct {
	*router.Backlog[string]
	t      *testing.T
	ledger *fleet.Ledger
	now    time.Duration
	full   bool // of the large one, once it is up
	nudged int
}

const (
	small = iota
	large
)

func newSleeping(t *testing.T, most int) *sleeping {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 100 * time.Millisecond, Weight: 1, Quality: []float64{.5, 1}}},
		[]fleet.Variant{{Name: "small", Model: -1}, {Name: "large"}}, []fleet.Host{{Name: "host", Memory: 10}},
		[]fleet.Replica{{Name: "small@host", Memory: 4}, {Name: "large@host", Variant: large, Initial: fleet.Warm, Memory: 6}},
		fleet.Model{Name: "weights", Load: time.Minute, Wake: 2500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	x := &sleeping{t: t, ledger: fleet.NewLedger(table)}
	limits := router.Limits{MaxQueue: 5, MaxWait: 2 * time.Second, RetryAfter: time.Second, MaxRetryAfter: time.Minute, Hold: router.Hold{For: 30 * time.Second, Most: most}}
	x.Backlog = router.NewBacklog(table, []queue.Class{{}}, limits, func(w *router.Waiter[string]) error {
		switch {
		case w.Variant != large && w.Request.MinQuality <= .5:
			return nil
		case x.ledger.State(large) != fleet.Up:
			return router.ErrAsleep
		case x.full:
			return router.ErrSaturated
		}
		return nil
	})
	x.Holds(router.Holder{Ledger: x.ledger, Nudge: func() { x.nudged++ }})
	return x
}

// join is a newcomer's way in. It returns why it is not begun, nil if it is, and whether it waits.
func (x *sleeping) join(name string, edit ...func(*router.Waiter[string])) (w *router.Waiter[string], waits bool) {
	w = &router.Waiter[string]{Value: name, Variant: large, Request: &fleet.Request{Arrival: x.now}}
	for _, f := range edit {
		f(w)
	}
	x.Join(w)
	if x.pass(w) {
		return w, false
	}
	settled, _, err := x.Stay(w, x.now)
	if err != nil {
		w.Err = err
	}
	return w, !settled && err == nil
}

// pass tries all that wait, and reports whether w waits no longer.
func (x *sleeping) pass(w *router.Waiter[string]) (settled bool) {
	x.Pass()
	for y := x.Next(x.now); y != nil; y = x.Next(x.now) {
		settled = settled || y == w
	}
	return settled
}

func (x *sleeping) held(n int) {
	x.t.Helper()
	if x.Held() != n || x.ledger.Awaited(large) != n || x.ledger.Awaited(small) != 0 {
		x.t.Errorf("%d held, %d and %d awaited; want %d for the large size", x.Held(), x.ledger.Awaited(small), x.ledger.Awaited(large), n)
	}
}

// A request that only a sleeping replica can answer waits for it, longer than others wait for room, and begins once
// it is up; others begin meanwhile.
func TestRequestsAreHeldForAWake(t *testing.T) {
	x := newSleeping(t, 10)
	first, waits := x.join("first")
	floor, also := x.join("floor", func(w *router.Waiter[string]) { w.Variant, w.Request.MinQuality = -1, .9 })
	if x.held(2); !waits || !also || x.nudged != 1 {
		t.Fatalf("they wait: %t, %t; woken %d times, want once", waits, also, x.nudged)
	}
	if other, waits := x.join("other", func(w *router.Waiter[string]) { w.Variant = small }); waits || other.Err != nil {
		t.Errorf("a request for the small size waits: %t, %v", waits, other.Err)
	}
	x.now = 29 * time.Second
	if over := x.Expire(x.now, nil); len(over) > 0 {
		t.Errorf("%d are given up after 29 s", len(over))
	}
	x.ledger.Place(large, fleet.Up)
	x.pass(nil)
	if x.held(0); first.Err != nil || floor.Err != nil || x.Len() != 0 {
		t.Errorf("once it is up %v and %v, and %d wait", first.Err, floor.Err, x.Len())
	}
}

// What is held is bounded in time and number, and its refusal says when to come again; who leaves is not counted.
func TestHeldRequestsAreBounded(t *testing.T) {
	x := newSleeping(t, 2)
	x.join("first")
	leaves, _ := x.join("leaves")
	over, waits := x.join("over")
	var refused router.Refusal
	if !errors.As(over.Err, &refused) || waits || refused.Reason != router.RefusedHeld || refused.After != 3*time.Second || refused.Awaited != large+1 {
		t.Errorf("the third gets %+v", over.Err)
	}
	x.held(2)
	x.Leave(leaves)
	x.held(1)
	x.ledger.Place(large, fleet.Loading)
	x.now = 30 * time.Second
	x.ledger.Expect(large, x.now+7*time.Second)
	list := x.Expire(x.now, nil)
	if len(list) != 1 || !errors.As(list[0].Err, &refused) || refused.Reason != router.RefusedAsleep || refused.After != 7*time.Second {
		t.Fatalf("given up after 30 s: %v", list)
	}
	x.held(0)
}

// A deadline of the request's own ends the wait, its task's does not; a woken replica without room leaves it waiting,
// but not held; and one that nothing wakes is not waited for.
func TestWhatHeldRequestsWaitFor(t *testing.T) {
	x := newSleeping(t, 10)
	x.join("own", func(w *router.Waiter[string]) { w.Request.Total = 4 * time.Second })
	x.join("task")
	x.now = 4 * time.Second
	if over := x.Expire(x.now, nil); len(over) != 1 || over[0].Value != "own" {
		t.Errorf("%d given up after 4 s", len(over))
	}
	x.full = true
	x.ledger.Place(large, fleet.Up)
	x.pass(nil)
	if x.held(0); x.Len() != 1 {
		t.Errorf("%d wait for room", x.Len())
	}
	x.full = false
	x.pass(nil)

	x.ledger.Place(large, fleet.Warm)
	x.Holds(router.Holder{Ledger: x.ledger, Wakes: func(int) bool { return false }})
	if w, waits := x.join("in vain"); waits || !errors.Is(w.Err, router.ErrNoReplica) || router.Refused(w.Err) != router.RefusedNoReplica {
		t.Errorf("waits for what nothing wakes: %t, %v", waits, w.Err)
	}
	x.Holds(router.Holder{Ledger: x.ledger})
	if w, waits := x.join("kept there", func(w *router.Waiter[string]) { w.Request.Only = large + 1 }); waits || router.Refused(w.Err) != router.RefusedNoReplica {
		t.Errorf("waits for what has forgotten it: %t, %v", waits, w.Err)
	}
	x.held(0)
}
