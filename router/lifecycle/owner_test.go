package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// owner is a fixture with the claims of three ranks, and what was reported to each.
type owner struct {
	*fixture
	failover, versions, balancing *lifecycle.Claims
	seen                          map[lifecycle.Rank][]control.Event
}

func newOwner(t *testing.T, initial ...fleet.State) *owner {
	w := &owner{fixture: newFixture(t, lifecycle.Options{}, initial...), seen: map[lifecycle.Rank][]control.Event{}}
	claim := func(r lifecycle.Rank) *lifecycle.Claims {
		return w.c.Claim(r, func(e control.Event) { w.seen[r] = append(w.seen[r], e) })
	}
	w.failover, w.versions, w.balancing = claim(lifecycle.Failover), claim(lifecycle.Versions), claim(lifecycle.Balancing)
	return w
}

func (w *owner) propose(k *lifecycle.Claims, wants ...lifecycle.Want) uint64 {
	w.Helper()
	id, err := k.Propose(wants...)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// reported checks what has been reported to the rank since the last time, in short.
func (w *owner) reported(r lifecycle.Rank, want ...string) {
	w.Helper()
	var got []string
	for _, e := range w.seen[r] {
		got = append(got, fmt.Sprintf("%v %d of %d", e.Kind, e.Replica, e.Want))
	}
	if w.seen[r] = nil; !slices.Equal(got, want) {
		w.Errorf("%v was reported %q, want %q", r, got, want)
	}
}

func up(i int) lifecycle.Want   { return lifecycle.Want{Replica: i, State: fleet.Up} }
func cold(i int) lifecycle.Want { return lifecycle.Want{Replica: i, State: fleet.Cold} }

// A want is carried out, and its end reported to its owner.
func TestAWantIsReportedToItsOwner(t *testing.T) {
	w := newOwner(t, fleet.Cold, fleet.Cold)
	id := w.propose(w.failover, up(small0))
	w.wake(0)
	w.acted(1, control.Load, small0)
	w.answer(control.Loaded, nil)
	w.wake(0)
	w.reported(lifecycle.Failover, fmt.Sprintf("loaded %d of %d", small0, id))
	w.reported(lifecycle.Balancing)
	again := w.propose(w.balancing, up(small0)) // it is already
	w.wake(0)
	w.reported(lifecycle.Balancing, fmt.Sprintf("loaded %d of %d", small0, again))
	w.propose(w.failover, up(tiny0))
	w.wake(0)
	w.answer(control.ActionFailed, fmt.Errorf("no file"))
	w.wake(0)
	w.reported(lifecycle.Failover, fmt.Sprintf("action failed %d of %d", tiny0, again+1))
}

// Of several states all are wanted or none: not for a part of the memory.
func TestAllOrNone(t *testing.T) {
	w := newOwner(t, fleet.Cold, fleet.Cold)
	if _, err := w.failover.Propose(up(small0), up(large0)); err == nil || !strings.Contains(err.Error(), "host gpu0 has 24 GiB") {
		t.Errorf("25 GiB on a host of 24: %v", err)
	}
	if w.wake(0); len(w.engines.acts) > 0 {
		t.Errorf("one of two was begun: %v", w.engines.acts)
	}
	w.propose(w.failover, up(tiny0), up(small0))
	w.wake(0)
	w.acted(2, control.Load, small0)
}

// A want for a replica at which something is under way begins once that has ended.
func TestAWantWaitsForWhatIsUnderWay(t *testing.T) {
	w := newOwner(t)
	w.want(tiny0, fleet.Cold, lifecycle.Order{})
	w.wake(0)
	id := w.propose(w.failover, up(tiny0))
	w.wake(0)
	w.acted(1, control.Unload, tiny0)
	w.answer(control.Unloaded, nil)
	w.wake(0)
	w.acted(2, control.Load, tiny0)
	w.answer(control.Loaded, nil)
	w.wake(0)
	w.reported(lifecycle.Failover, fmt.Sprintf("loaded %d of %d", tiny0, id))
}

// What a higher rank wants evicts what a lower one does, and not the other way round; an operator's order evicts
// both.
func TestRanks(t *testing.T) {
	w := newOwner(t)
	id := w.propose(w.balancing, cold(small0))
	w.propose(w.failover, up(small0))
	w.wake(0)
	w.reported(lifecycle.Balancing, fmt.Sprintf("evicted %d of %d", small0, id))
	w.propose(w.failover, cold(small0))
	if _, err := w.balancing.Propose(up(small0)); err == nil || err.Error() != "small@gpu0 is wanted cold by failover" {
		t.Errorf("a lower rank: %v", err)
	}
	w.seen = map[lifecycle.Rank][]control.Event{}
	w.want(small0, fleet.Up, lifecycle.Order{})
	w.wake(0)
	w.reported(lifecycle.Failover, fmt.Sprintf("evicted %d of 3", small0))
	w.is(small0, fleet.Up, "")
}

// What is held is left alone by lower ranks, and its memory is kept while it is not loaded. Its owner hears of it
// when an operator unloads it.
func TestHolds(t *testing.T) {
	w := newOwner(t, fleet.Up, fleet.Cold)
	w.failover.Hold([]int{tiny0, small0}, nil)
	w.wake(0)
	if _, err := w.balancing.Propose(cold(tiny0)); err == nil || err.Error() != "tiny@gpu0 is held by failover" {
		t.Errorf("an unload of what is held: %v", err)
	}
	if _, err := w.balancing.Propose(up(large0)); err == nil || w.balancing.Fits(large0) || !w.failover.Fits(large0) {
		t.Errorf("14 GiB of 24, of which 1 is loaded and 11 are kept: %v", err)
	}
	if !w.balancing.Taken(tiny0) || w.failover.Taken(tiny0) || w.balancing.Reserved(0) != 11*gib {
		t.Errorf("held from rebalancing: %t, from failover itself: %t; %d bytes are kept", w.balancing.Taken(tiny0), w.failover.Taken(tiny0), w.balancing.Reserved(0))
	}
	w.want(tiny0, fleet.Cold, lifecycle.Order{})
	w.wake(0)
	w.answer(control.Unloaded, nil)
	w.wake(0)
	w.reported(lifecycle.Failover, fmt.Sprintf("unloaded %d of 0", tiny0))
	w.failover.Hold(nil, nil)
	w.propose(w.balancing, up(large0))
}

// A location sleeps once the replica that was up does: the other one, which has no version yet, is not loaded for it.
func TestALocationSleeps(t *testing.T) {
	w := newOwner(t, fleet.Up, fleet.Cold)
	w.versions.TakeTurns(tiny0, small0)
	w.propose(w.balancing, lifecycle.Want{Replica: tiny0, State: fleet.Warm})
	w.wake(0)
	w.acted(1, control.Sleep, tiny0)
	w.answer(control.Slept, nil)
	w.wake(0)
	w.reported(lifecycle.Balancing, fmt.Sprintf("slept %d of 1", tiny0))
	w.is(small0, fleet.Cold, "")
	w.propose(w.balancing, up(tiny0))
	w.wake(0)
	w.acted(2, control.Wake, tiny0)
}

// Two replicas that take turns are one location: a load is of the one in turn, either meets a want, and an unload
// is of both. While the version is changed there, others wait.
func TestTurns(t *testing.T) {
	w := newOwner(t, fleet.Cold, fleet.Cold)
	first, second := tiny0, small0 // of one location, for the sake of the test
	w.versions.TakeTurns(first, second)
	w.versions.Turn(second)
	w.propose(w.failover, up(first))
	w.wake(0)
	w.acted(1, control.Load, second)
	w.answer(control.Loaded, nil)
	w.wake(0)
	w.reported(lifecycle.Failover, fmt.Sprintf("loaded %d of 1", first))

	w.failover.Hold([]int{first}, nil)
	w.versions.Hold(nil, []int{first})
	w.propose(w.versions, up(first))
	w.wake(0)
	w.acted(2, control.Load, first)
	w.answer(control.Loaded, nil)
	w.propose(w.failover, cold(first))
	w.propose(w.versions, cold(second))
	w.wake(0)
	w.acted(3, control.Unload, second)
	w.answer(control.Unloaded, nil)
	w.wake(0)
	w.acted(3, control.Unload, second) // the version is being changed still
	w.reported(lifecycle.Failover)
	w.versions.Hold(nil, nil)
	w.wake(0)
	w.acted(4, control.Unload, first)
	w.answer(control.Unloaded, nil)
	w.wake(0)
	w.reported(lifecycle.Failover, fmt.Sprintf("unloaded %d of 3", first))
}

// Whatever three controllers and an operator want at random: the memory of hosts is never exceeded, each want ends
// once, and nothing is left over.
func TestRandomWants(t *testing.T) {
	ended := 0
	for seed := range uint64(40) {
		table := catalogue(t, fleet.Cold, fleet.Cold, fleet.Cold, fleet.Cold, fleet.Cold)
		ledger := fleet.NewLedger(table)
		m := &model{table: table, ledger: ledger, state: slices.Repeat([]fleet.State{fleet.Cold}, 5), action: make([]*control.Action, 5), newer: make([]uint64, 5), forced: make([]bool, 5)}
		r := &run{T: t, rng: rand.New(rand.NewPCG(seed, 3)), m: m, ledger: ledger}
		r.c = lifecycle.New(ledger, m, lifecycle.Options{DrainTimeout: 20 * time.Second, ActionTimeout: time.Hour})
		left := map[uint64]int{}
		var claims []*lifecycle.Claims
		for _, rank := range []lifecycle.Rank{lifecycle.Failover, lifecycle.Versions, lifecycle.Balancing} {
			claims = append(claims, r.c.Claim(rank, func(e control.Event) {
				if e.Want > 0 {
					left[e.Want]--
					ended++
				}
			}))
		}
		claims[1].TakeTurns(1, 2)
		for step := range 1500 {
			k := claims[r.rng.IntN(3)]
			switch r.rng.IntN(6) {
			case 0, 1:
				wants := []lifecycle.Want{{Replica: r.rng.IntN(5), State: []fleet.State{fleet.Up, fleet.Warm, fleet.Cold}[r.rng.IntN(3)]}}
				if id, err := k.Propose(wants...); err == nil {
					left[id] += len(wants)
				}
			case 2:
				if held := []int{r.rng.IntN(5)}; k == claims[1] {
					k.Hold(nil, held[:r.rng.IntN(2)])
				} else {
					k.Hold(held[:r.rng.IntN(2)], nil)
				}
			default:
				r.step()
			}
			r.check(seed, step)
		}
		for _, k := range claims {
			k.Hold(nil, nil)
		}
		r.settle(seed)
		for id, n := range left {
			if n != 0 {
				t.Fatalf("seed %d: %d ends of want %d are missing", seed, n, id)
			}
		}
	}
	if ended < 1000 {
		t.Errorf("%d wants ended: the test does too little", ended)
	}
}
