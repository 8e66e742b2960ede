package solve

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// frontOf returns the front of the points, which it sorts.
func frontOf(points []Point) Front {
	slices.SortFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Value, a.Value))
	})
	best, kept := math.Inf(-1), points[:0]
	for _, p := range points {
		if p.Value > best+Same {
			best, kept = p.Value, append(kept, p)
		}
	}
	return kept
}

// drawn is an instance of n items whose fronts have points of a few values, as those of
// batches of a few kinds have; tight says how much of what the dearest points cost the
// budgets allow.
func drawn(rng *rand.Rand, n, options int, tight float64) []Item {
	items := make([]Item, n)
	var spent float64
	for k := range items {
		size := 1 + rng.IntN(12)
		var points []Point
		for range options * 4 {
			q := 0.6 + 0.3*rng.Float64()
			cost := (3 + 40*(q-0.6) + 10*rng.Float64()) * (2 + float64(size)) / 3
			points = append(points, Point{cost, q * float64(size)})
		}
		items[k].Front = frontOf(points)
		f := items[k].Front
		spent += f[0].Cost + tight*(f[len(f)-1].Cost-f[0].Cost)
		items[k].Budget = spent * (0.9 + 0.3*rng.Float64())
	}
	for k := n - 2; k >= 0; k-- { // deadlines are in order
		items[k].Budget = min(items[k].Budget, items[k+1].Budget)
	}
	return items
}

// exhaustive tries every combination.
func exhaustive(items []Item, cost float64) (best float64) {
	if len(items) == 0 {
		return 0
	}
	best = math.Inf(-1)
	for _, p := range items[0].Front {
		if cost+p.Cost <= items[0].Budget+Tolerance {
			best = max(best, p.Value+exhaustive(items[1:], cost+p.Cost))
		}
	}
	return best
}

// pareto is the program without bounds.
func pareto(items []Item) float64 {
	sets := Front{{0, 0}}
	for _, item := range items {
		var next []Point
		for _, s := range sets {
			for _, p := range item.Front {
				if s.Cost+p.Cost <= item.Budget+Tolerance {
					next = append(next, Point{s.Cost + p.Cost, s.Value + p.Value})
				}
			}
		}
		if sets = frontOf(next); len(sets) == 0 {
			return math.Inf(-1)
		}
	}
	return sets[len(sets)-1].Value
}

// holds checks that the picks keep the budgets and have the value.
func holds(t *testing.T, items []Item, picks []int, value float64) {
	t.Helper()
	var cost, sum float64
	for k, item := range items {
		p := item.Front[picks[k]]
		cost, sum = cost+p.Cost, sum+p.Value
		if cost > item.Budget+2*Tolerance {
			t.Fatalf("item %d: %v is over its budget of %v", k, cost, item.Budget)
		}
	}
	if math.Abs(sum-value) > Tolerance {
		t.Fatalf("the picks are worth %v, reported %v", sum, value)
	}
}

func TestChainAgainstExhaustiveSearch(t *testing.T) {
	var c Chain
	infeasible, solved := 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		items := drawn(rng, 1+rng.IntN(5), 1+rng.IntN(2), 1.2*rng.Float64()-0.1)
		if seed%10 == 0 {
			items[0].Budget = math.Inf(1)
		}
		picks := make([]int, len(items))
		got, ok := c.Solve(items, picks)
		want := exhaustive(items, 0)
		if ok != !math.IsInf(want, -1) {
			t.Fatalf("seed %d: feasible %t, by search %v", seed, ok, want)
		}
		if !ok {
			infeasible++
			continue
		}
		solved++
		if math.Abs(got-want) > Tolerance {
			t.Fatalf("seed %d: value %v, by search %v", seed, got, want)
		}
		holds(t, items, picks, got)
	}
	if infeasible < 20 || solved < 200 {
		t.Errorf("%d infeasible and %d solved instances: the test lost its range", infeasible, solved)
	}
}

func TestChainAgainstTheProgramWithoutBounds(t *testing.T) {
	var c Chain
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		items := drawn(rng, 10+rng.IntN(11), 2+rng.IntN(6), rng.Float64())
		picks := make([]int, len(items))
		got, ok := c.Solve(items, picks)
		if want := pareto(items); ok != !math.IsInf(want, -1) || ok && math.Abs(got-want) > Tolerance {
			t.Fatalf("seed %d: value %v (%t), without bounds %v", seed, got, ok, want)
		}
		if ok {
			holds(t, items, picks, got)
		}
	}
}

// TestChainWhereAllIsOnALine: the relaxation rules out nothing, and the best of more sums than
// can be tried is not found. What is found is close, and the gap says how close.
func TestChainWhereAllIsOnALine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	items := make([]Item, 20)
	for k := range items {
		var points []Point
		for range 30 {
			cost := 1 + 99*rng.Float64()
			points = append(points, Point{cost, cost / 100})
		}
		items[k].Front = frontOf(points)
		items[k].Budget = 40 * float64(k+1)
	}
	var c Chain
	picks := make([]int, len(items))
	value, ok := c.Solve(items, picks)
	if !ok || c.Gap() <= 0 || c.Gap() > 0.001*value {
		t.Errorf("value %v with a gap of %v", value, c.Gap())
	}
	holds(t, items, picks, value)
	if c.Solve(items[:2], picks); c.Gap() != 0 {
		t.Errorf("a gap of %v where all is tried", c.Gap())
	}
}

// TestChainOfLargeNumbers: sums in another order differ by more than the tolerance.
func TestChainOfLargeNumbers(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 6))
		var items []Item
		var sum float64
		for range 6 {
			cost := 1e7 * rng.Float64()
			sum += cost
			items = append(items, Item{Front{{cost, 1}, {cost + 20, 3}}, sum})
		}
		items = append(items, Item{Front{{10, 1}, {20, 3}}, 1e12})
		var c Chain
		if got, ok := c.Solve(items, make([]int, len(items))); !ok || got != 9 {
			t.Fatalf("seed %d: value %v (%t), want 9: six at their cheapest, the last at its best", seed, got, ok)
		}
	}
}

// The relaxation is a bound: no solution is worth more.
func TestRelaxationIsABound(t *testing.T) {
	var r relaxation
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		items := drawn(rng, 1+rng.IntN(4), 2, rng.Float64())
		r.set(items)
		for k := range items {
			l := r.layer(k)
			reach := l.reach()
			for _, cost := range []float64{-5, 0, 3, 7, 20} {
				want := exhaustive(items[k:], cost)
				if !math.IsInf(want, -1) && reach.at(cost) < want-Tolerance {
					t.Fatalf("seed %d, from item %d at %v: bound %v, a solution is worth %v", seed, k, cost, reach.at(cost), want)
				}
				if feasible := !math.IsInf(want, -1); feasible != (cost <= l.latest+Tolerance) && math.Abs(cost-l.latest) > 1e-6 {
					t.Fatalf("seed %d, from item %d at %v: latest %v, feasible %t", seed, k, cost, l.latest, feasible)
				}
			}
		}
	}
}

func TestChainDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	items := drawn(rng, 20, 7, 0.4)
	picks := make([]int, len(items))
	var c Chain
	c.Solve(items, picks)
	if n := testing.AllocsPerRun(20, func() { c.Solve(items, picks) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFrontAt(t *testing.T) {
	f := frontOf([]Point{{3, 1}, {1, 1}, {2, 3}, {2, 2}, {5, 3}, {4, 4}})
	if want := (Front{{1, 1}, {2, 3}, {4, 4}}); !slices.Equal(f, want) {
		t.Errorf("front %v, want %v", f, want)
	}
	for floor, want := range map[float64]int{0: 0, 1: 0, 1.5: 1, 3 + 1e-10: 1, 3.1: 2, 4.1: -1} {
		i, ok := f.At(floor)
		if !ok {
			i = -1
		}
		if i != want {
			t.Errorf("floor %v: point %d, want %d", floor, i, want)
		}
	}
}

// BenchmarkChain solves drawn queues, one after the other.
//
//	go test ./router/solve -bench Chain -benchmem
//
// Items on a line are the worst case: the limit bounds their time.
func BenchmarkChain(b *testing.B) {
	for _, size := range [][2]int{{20, 3}, {20, 7}, {50, 3}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			var all [][]Item
			for seed := range uint64(64) {
				rng := rand.New(rand.NewPCG(seed, 4))
				all = append(all, drawn(rng, size[0], size[1], rng.Float64()))
			}
			picks := make([]int, size[0])
			var c Chain
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.Solve(all[i%len(all)], picks)
			}
		})
	}
}
