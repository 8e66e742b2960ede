package conformance

import (
	"sync"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
)

// Balancer holds b to the contract of [router.Balancer] on the fleet t.
func Balancer(t *testing.T, table *fleet.Table, b router.Balancer) {
	t.Helper()
	if b.Name() == "" {
		t.Fatal("the name is empty")
	}
	t.Run("picks what is available", func(t *testing.T) { balancerPicks(t, table, b) })
	t.Run("is pure", func(t *testing.T) { balancerPurity(t, table, b) })
	t.Run("allocates nothing", func(t *testing.T) {
		x := busyWith(table)
		if n := testing.AllocsPerRun(200, func() { b.Pick(&x.view, &x.request, 0, x.random) }); n != 0 {
			t.Fatalf("Pick allocates %v times", n)
		}
	})
	t.Run("is shared by goroutines", func(t *testing.T) {
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { balancerPicks(t, table, b) })
		}
		group.Wait()
	})
}

// balancerPicks reports with Error, not Fatal, as it also runs off the test's
// goroutine.
func balancerPicks(t *testing.T, table *fleet.Table, b router.Balancer) {
	for seed := range uint64(views) {
		x := draw(table, seed)
		for m := range table.Variants {
			// The extremes of the random number are where index arithmetic errs.
			for _, random := range []uint64{x.random, 0, 1<<64 - 1} {
				if !validPick(x, m, b.Pick(&x.view, &x.request, m, random)) {
					t.Errorf("%v: variant %d, random %#x: picked %d", x, m, random, b.Pick(&x.view, &x.request, m, random))
					return
				}
			}
		}
	}
}

func validPick(x *example, variant, replica int) bool {
	if !x.view.VariantAvailable(variant) {
		return replica == -1
	}
	replicas := x.view.Table.Replicas
	return replica >= 0 && replica < len(replicas) && replicas[replica].Variant == variant && x.view.Available(replica)
}

func balancerPurity(t *testing.T, table *fleet.Table, b router.Balancer) {
	first := make([]int, views)
	pick := func(seed int) int {
		x := draw(table, uint64(seed))
		defer x.unchanged(t)
		return b.Pick(&x.view, &x.request, seed%len(table.Variants), x.random)
	}
	for seed := range first {
		first[seed] = pick(seed)
	}
	for seed := views - 1; seed >= 0; seed-- {
		if again := pick(seed); again != first[seed] {
			t.Fatalf("seed %d: picked %d at first, %d later", seed, first[seed], again)
		}
	}
}
