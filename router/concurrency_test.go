package router_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/fleet"
)

// TestPlacesAreNeverGivenTwice has goroutines take and give back the few
// places of a fleet in random order, while the policy is swapped and replicas
// go down and up. Each replica's leases are counted beside the ledger: the
// count may never pass the limit, and ends at zero.
func TestPlacesAreNeverGivenTwice(t *testing.T) {
	const limit, goroutines, rounds = 3, 8, 3000
	core := newCore(t, limit, func(c *router.Config) { c.Balancer = balance.PowerOfK{K: 2} })
	held := make([]atomic.Int32, len(core.Table().Replicas))
	var saturated atomic.Int32

	worker := func(seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var mine []router.Choice
		end := func(i int) {
			choice := mine[i]
			mine[i] = mine[len(mine)-1]
			mine = mine[:len(mine)-1]
			held[choice.Replica].Add(-1)
			if !choice.Lease.End() || choice.Lease.End() {
				t.Error("a lease did not end exactly once")
			}
		}
		for i := range rounds {
			var choice router.Choice
			var err error
			r := &fleet.Request{Task: rng.IntN(4)}
			if rng.IntN(4) == 0 {
				choice, err = core.Route(rng.IntN(3), r, time.Duration(i), nil)
			} else {
				choice, err = route(core, r, time.Duration(i))
			}
			switch {
			case err == nil:
				if n := held[choice.Replica].Add(1); n > limit {
					t.Errorf("%d leases on replica %d, limit %d", n, choice.Replica, limit)
				}
				mine = append(mine, choice)
			case errors.Is(err, router.ErrSaturated), errors.Is(err, router.ErrNoReplica):
				saturated.Add(1)
			default:
				t.Error(err)
			}
			for len(mine) > 0 && rng.IntN(5) < 2 {
				end(rng.IntN(len(mine)))
			}
		}
		for len(mine) > 0 {
			end(rng.IntN(len(mine)))
		}
	}
	disturb := func() {
		rng := rand.New(rand.NewPCG(99, 0))
		for range rounds {
			core.Ledger().SetUp(rng.IntN(len(held)), rng.IntN(3) > 0)
			if err := core.SetPolicy(always(rng.IntN(4) - 1)); err != nil {
				t.Error(err)
			}
		}
		for i := range held {
			core.Ledger().SetUp(i, true)
		}
	}

	var group sync.WaitGroup
	for seed := range uint64(goroutines) {
		group.Go(func() { worker(seed) })
	}
	group.Go(disturb)
	group.Wait()

	var v fleet.View
	core.Ledger().View(0, &v)
	for i := range held {
		if held[i].Load() != 0 || v.InFlight[i] != 0 {
			t.Errorf("replica %d: %d held, %d in flight at the end", i, held[i].Load(), v.InFlight[i])
		}
	}
	if saturated.Load() == 0 {
		t.Error("the fleet never was full: the test did not test its limits")
	}
}
