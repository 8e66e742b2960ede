package conformance

import (
	"fmt"
	"slices"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
)

// Balancer holds b to the contract of [router.Balancer] on the fleet t.
func Balancer(t *testing.T, table *fleet.Table, b router.Balancer) {
	t.Helper()
	for _, check := range balancerChecks {
		t.Run(check.name, func(t *testing.T) {
			if err := check.run(table, b); err != nil {
				t.Errorf("balancer %q: %v", b.Name(), err)
			}
		})
	}
}

var balancerChecks = []check[router.Balancer]{
	{"introduces itself", balancerIntroduction},
	{"picks what is available", balancerPicks},
	{"is pure", balancerPurity},
	{"allocates nothing", balancerAllocations},
	{"is shared by goroutines", balancerSharing},
	{"picks alike by several numbers at once", balancerSpread},
}

func balancerIntroduction(_ *fleet.Table, b router.Balancer) error {
	if b.Name() == "" {
		return fmt.Errorf("the name is empty")
	}
	return nil
}

func balancerPicks(table *fleet.Table, b router.Balancer) error {
	for seed := range uint64(views) {
		x := draw(table, seed)
		for m := range table.Variants {
			// The extremes of the random number are where index arithmetic errs.
			for _, random := range []uint64{x.random, 0, 1<<64 - 1} {
				if i := b.Pick(&x.view, &x.request, m, random); !validPick(x, m, i) {
					return fmt.Errorf("%v: variant %d, random %#x: picked %d", x, m, random, i)
				}
			}
		}
		if err := x.unchanged(); err != nil {
			return err
		}
	}
	return nil
}

func validPick(x *example, variant, replica int) bool {
	if !x.view.VariantAvailable(variant) {
		return replica == -1
	}
	return slices.Contains(x.view.ReplicasOf(variant), replica) && x.view.Available(replica)
}

// balancerPurity picks for each view twice, the second time in reverse order.
func balancerPurity(table *fleet.Table, b router.Balancer) error {
	pick := func(seed int) int {
		x := draw(table, uint64(seed))
		return b.Pick(&x.view, &x.request, seed%len(table.Variants), x.random)
	}
	first := make([]int, views)
	for seed := range first {
		first[seed] = pick(seed)
	}
	for seed := views - 1; seed >= 0; seed-- {
		if again := pick(seed); again != first[seed] {
			return fmt.Errorf("%v: picked %d at first, %d later", draw(table, uint64(seed)), first[seed], again)
		}
	}
	return nil
}

func balancerAllocations(table *fleet.Table, b router.Balancer) error {
	x := busy(table)
	if n := testing.AllocsPerRun(200, func() { b.Pick(&x.view, &x.request, 0, x.random) }); n != 0 {
		return fmt.Errorf("%v: Pick allocates %v times", x, n)
	}
	return nil
}

// balancerSharing is policySharing for balancers.
func balancerSharing(table *fleet.Table, b router.Balancer) error {
	examples := make([]*example, 200)
	alone := make([]int, len(examples))
	pick := func(i int) int {
		x := examples[i]
		return b.Pick(&x.view, &x.request, i%len(table.Variants), x.random)
	}
	for i := range examples {
		examples[i] = draw(table, uint64(i))
		alone[i] = pick(i)
	}
	return together(func() error {
		for i, x := range examples {
			if replica := pick(i); replica != alone[i] {
				return fmt.Errorf("%v: picked %d alone, %d in company", x, alone[i], replica)
			}
		}
		return nil
	})
}

// balancerSpread is of balancers that are a policy.Spread too.
func balancerSpread(table *fleet.Table, b router.Balancer) error {
	s, ok := b.(interface {
		PickSpread(v *fleet.View, r *fleet.Request, variant int) [4]int
	})
	if !ok {
		return nil
	}
	x := busy(table)
	if n := testing.AllocsPerRun(200, func() { s.PickSpread(&x.view, &x.request, 0) }); n != 0 {
		return fmt.Errorf("%v: PickSpread allocates %v times", x, n)
	}
	for seed := range uint64(views) {
		x := draw(table, seed)
		for m := range table.Variants {
			for k, replica := range s.PickSpread(&x.view, &x.request, m) {
				if want := b.Pick(&x.view, &x.request, m, uint64(k)<<62); replica != want {
					return fmt.Errorf("%v: variant %d: PickSpread has %d for %d quarters, Pick %d", x, m, replica, k, want)
				}
			}
		}
	}
	return nil
}
