package conformance

import (
	"math"
	"sync/atomic"
	"testing"

	"gearshift/router/fleet"
)

// policyFunc is a policy made of a function.
type policyFunc func(v *fleet.View, r *fleet.Request, scratch []float32) int

func (policyFunc) Name() string { return "test" }
func (policyFunc) Scratch() int { return 1 }
func (f policyFunc) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	return f(v, r, scratch)
}

// first is a policy that keeps the contract.
func first(v *fleet.View, _ *fleet.Request, _ []float32) int {
	for m := range v.Table.Variants {
		if v.VariantAvailable(m) {
			return m
		}
	}
	return -1
}

var sink []int

// TestPolicyKitCatches has the kit judge policies that break the contract in
// one way each.
func TestPolicyKitCatches(t *testing.T) {
	table := Fleet(8)
	Policy(t, table, policyFunc(first))
	var calls atomic.Int64
	for _, broken := range []struct {
		check  string
		what   string
		decide policyFunc
	}{
		{"chooses what is available", "gives up", func(*fleet.View, *fleet.Request, []float32) int { return -1 }},
		{"chooses what is available", "out of range", func(*fleet.View, *fleet.Request, []float32) int { return 3 }},
		{"chooses what is available", "unavailable", func(*fleet.View, *fleet.Request, []float32) int { return 1 }},
		{"chooses what is available", "changes the view", func(v *fleet.View, r *fleet.Request, s []float32) int {
			m := first(v, r, s)
			v.InFlight[0]++
			return m
		}},
		{"chooses what is available", "changes the request", func(v *fleet.View, r *fleet.Request, s []float32) int {
			r.Task = 0
			return first(v, r, s)
		}},
		{"is pure", "alternates", func(*fleet.View, *fleet.Request, []float32) int { return int(calls.Add(1)) % 3 }},
		{"is pure", "reads old scratch", func(v *fleet.View, r *fleet.Request, s []float32) int {
			if math.IsNaN(float64(s[0])) { // as the kit leaves it
				return -1
			}
			return first(v, r, s)
		}},
		{"allocates nothing", "allocates", func(v *fleet.View, r *fleet.Request, s []float32) int {
			sink = make([]int, 1)
			return first(v, r, s)
		}},
		{"is shared by goroutines", "counts its calls", func(*fleet.View, *fleet.Request, []float32) int {
			return min(1, int(calls.Add(1))/200)
		}},
	} {
		calls.Store(0)
		for _, check := range policyChecks {
			if check.name == broken.check && check.run(table, broken.decide) == nil {
				t.Errorf("%q: a policy that %s passes", check.name, broken.what)
			}
		}
	}
}

// balancerFunc is a balancer made of a function.
type balancerFunc func(v *fleet.View, variant int, random uint64) int

func (balancerFunc) Name() string { return "test" }
func (f balancerFunc) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	return f(v, variant, random)
}

// TestBalancerKitCatches is TestPolicyKitCatches for balancers.
func TestBalancerKitCatches(t *testing.T) {
	table := Fleet(8)
	firstUp := func(v *fleet.View, variant int, _ uint64) int {
		for _, i := range v.Table.ReplicasOf(variant) {
			if v.Available(i) {
				return i
			}
		}
		return -1
	}
	Balancer(t, table, balancerFunc(firstUp))
	var calls atomic.Int64
	for _, broken := range []struct {
		check string
		what  string
		pick  balancerFunc
	}{
		{"picks what is available", "gives up", func(*fleet.View, int, uint64) int { return -1 }},
		{"picks what is available", "ignores the variant", func(*fleet.View, int, uint64) int { return 0 }},
		{"picks what is available", "runs past the end", func(v *fleet.View, variant int, random uint64) int {
			replicas := v.Table.ReplicasOf(variant)
			return replicas[int(random>>60)%4] + int(random>>63)*12
		}},
		{"picks what is available", "changes the view", func(v *fleet.View, variant int, random uint64) int {
			i := firstUp(v, variant, random)
			v.Rate++
			return i
		}},
		{"is pure", "takes turns", func(v *fleet.View, variant int, _ uint64) int {
			return v.Table.ReplicasOf(variant)[calls.Add(1)%4]
		}},
		{"allocates nothing", "allocates", func(v *fleet.View, variant int, random uint64) int {
			sink = make([]int, 1)
			return firstUp(v, variant, random)
		}},
		{"is shared by goroutines", "gives up", func(*fleet.View, int, uint64) int { return -1 }},
	} {
		for _, check := range balancerChecks {
			if check.name == broken.check && check.run(table, broken.pick) == nil {
				t.Errorf("%q: a balancer that %s passes", check.name, broken.what)
			}
		}
	}
}
