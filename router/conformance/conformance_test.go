package conformance

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"gearshift/router"
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

// nameless has no name, and is neither policy nor balancer but for what it wraps.
type nameless struct {
	router.Policy
	router.Balancer
}

func (nameless) Name() string { return "" }

// misfit is a policy made for another fleet.
type misfit struct{ policyFunc }

func (misfit) Match(*fleet.Table) error { return errors.New("made for another fleet") }

var sink []int

// broken is what breaks the contract in one way, that of the check by the name.
type broken[T any] struct {
	check, what string
	subject     T
}

// catches has each check judge those that break it, of which there is at least one.
func catches[T any](t *testing.T, table *fleet.Table, checks []check[T], list []broken[T]) {
	t.Helper()
	rows := map[string]int{}
	for _, b := range list {
		rows[b.check]++
	}
	for _, c := range checks {
		if rows[c.name] == 0 {
			t.Errorf("nothing breaks %q", c.name)
		}
		delete(rows, c.name)
		for _, b := range list {
			if b.check == c.name && c.run(table, b.subject) == nil {
				t.Errorf("%q: one that %s passes", c.name, b.what)
			}
		}
	}
	for name := range rows {
		t.Errorf("there is no check %q", name)
	}
}

// counting returns a function that counts its own calls, for one row alone.
func counting() func() int {
	var calls atomic.Int64
	return func() int { return int(calls.Add(1)) }
}

func TestPolicyKitCatches(t *testing.T) {
	table := Fleet(8)
	Policy(t, table, policyFunc(first))
	turns, calls := counting(), counting()
	catches(t, table, policyChecks, []broken[router.Policy]{
		{"introduces itself", "has no name", nameless{Policy: policyFunc(first)}},
		{"introduces itself", "was made for another fleet", misfit{first}},
		{"chooses what is available", "gives up", policyFunc(func(*fleet.View, *fleet.Request, []float32) int { return -1 })},
		{"chooses what is available", "is out of range", policyFunc(func(*fleet.View, *fleet.Request, []float32) int { return 3 })},
		{"chooses what is available", "takes what is not", policyFunc(func(*fleet.View, *fleet.Request, []float32) int { return 1 })},
		{"chooses what is available", "changes the view", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			m := first(v, r, s)
			v.InFlight[0]++
			return m
		})},
		{"chooses what is available", "changes the smoothed rates", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			v.Smoothed[1] /= 2
			return first(v, r, s)
		})},
		{"chooses what is available", "changes how the latest requests went", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			v.Recent[62]++
			return first(v, r, s)
		})},
		{"chooses what is available", "changes what others have", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			m := first(v, r, s)
			if m >= 0 && len(v.Elsewhere) > 0 { // nothing becomes unavailable
				v.Elsewhere[0]++
			}
			return m
		})},
		{"chooses what is available", "changes the request", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			r.Task = 0
			return first(v, r, s)
		})},
		{"chooses what is available", "takes what is predicted best", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			if !r.Predicted.Known {
				return first(v, r, s)
			}
			best := 0
			for m := range v.Table.Variants {
				if v.Table.Quality(r, m) > v.Table.Quality(r, best) {
					best = m
				}
			}
			return best
		})},
		{"chooses what is available", "changes the prediction", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			r.Predicted = fleet.Prediction{}
			return first(v, r, s)
		})},
		{"is pure", "takes turns", policyFunc(func(*fleet.View, *fleet.Request, []float32) int { return turns() % 3 })},
		{"is pure", "reads old scratch", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			if math.IsNaN(float64(s[0])) { // as the kit leaves it
				return -1
			}
			return first(v, r, s)
		})},
		{"allocates nothing", "allocates", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			sink = make([]int, 1)
			return first(v, r, s)
		})},
		{"allocates nothing", "allocates for a prediction", policyFunc(func(v *fleet.View, r *fleet.Request, s []float32) int {
			if r.Predicted.Known {
				sink = make([]int, 1)
			}
			return first(v, r, s)
		})},
		{"is shared by goroutines", "counts its calls", policyFunc(func(*fleet.View, *fleet.Request, []float32) int {
			return min(1, calls()/200)
		})},
		{"places where it decides", "places elsewhere", placerFunc(func(*fleet.View) int { return 11 })},
	})
}

// balancerFunc is a balancer made of a function.
type balancerFunc func(v *fleet.View, variant int, random uint64) int

func (balancerFunc) Name() string { return "test" }
func (f balancerFunc) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	return f(v, variant, random)
}

// lumped is a balancer that picks by several numbers as by the first.
type lumped struct{ balancerFunc }

func (l lumped) PickSpread(v *fleet.View, _ *fleet.Request, variant int) [4]int {
	i := l.Pick(v, nil, variant, 0)
	return [4]int{i, i, i, i}
}

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
	turns, calls := counting(), counting()
	catches(t, table, balancerChecks, []broken[router.Balancer]{
		{"introduces itself", "has no name", nameless{Balancer: balancerFunc(firstUp)}},
		{"picks what is available", "gives up", balancerFunc(func(*fleet.View, int, uint64) int { return -1 })},
		{"picks what is available", "ignores the variant", balancerFunc(func(*fleet.View, int, uint64) int { return 0 })},
		{"picks what is available", "runs past the end", balancerFunc(func(v *fleet.View, variant int, random uint64) int {
			replicas := v.Table.ReplicasOf(variant)
			return replicas[int(random>>60)%4] + int(random>>63)*12
		})},
		{"picks what is available", "changes the view", balancerFunc(func(v *fleet.View, variant int, random uint64) int {
			i := firstUp(v, variant, random)
			v.Rate++
			return i
		})},
		{"is pure", "takes turns", balancerFunc(func(v *fleet.View, variant int, _ uint64) int {
			return v.Table.ReplicasOf(variant)[turns()%4]
		})},
		{"allocates nothing", "allocates", balancerFunc(func(v *fleet.View, variant int, random uint64) int {
			sink = make([]int, 1)
			return firstUp(v, variant, random)
		})},
		{"is shared by goroutines", "counts its calls", balancerFunc(func(v *fleet.View, variant int, _ uint64) int {
			return v.Table.ReplicasOf(variant)[min(1, calls()/200)]
		})},
		{"picks alike by several numbers at once", "ignores the others", lumped{balancerFunc(func(v *fleet.View, variant int, random uint64) int {
			if i := v.Table.ReplicasOf(variant)[random>>62]; v.Available(i) {
				return i
			}
			return firstUp(v, variant, random)
		})}},
	})
}
