package placement

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// plans are the plans of the tables, by name.
var plans = []struct {
	name string
	plan func(*Problem) *Plan
}{
	{"`alg1`", func(p *Problem) *Plan { return p.Algorithm1(false) }},
	{"first, without a search", func(p *Problem) *Plan { return p.Plan(0) }},
	{"served at once", func(p *Problem) *Plan { return p.Plan(p.AtOnce()) }},
	{"served, after its slices", func(p *Problem) *Plan {
		g := p.Search(p.AtOnce())
		for g.Slice() {
		}
		return g.Plan()
	}},
	{"`gearshift`", func(p *Problem) *Plan { return p.Plan(p.Thorough()) }},
}

// planned is a row of a table: of a plan of some problems.
type planned struct {
	took        time.Duration // in the median
	mean, worst float64       // share of the best that is known
	placed      int
}

// plan plans the problems, and holds the plans against what the best of each is worth with as many placed.
func plan(t *testing.T, problems []*Problem, how func(*Problem) *Plan, best func(*Problem, *Plan) float64) planned {
	t.Helper()
	x := planned{worst: 1}
	var took []time.Duration
	for _, p := range problems {
		began := time.Now()
		plan := how(p)
		took = append(took, time.Since(began))
		held(t, p, plan)
		share := plan.Objective / best(p, plan)
		x.mean, x.worst, x.placed = x.mean+share/float64(len(problems)), min(x.worst, share), x.placed+plan.Placed
	}
	slices.Sort(took)
	x.took = took[len(took)/2]
	return x
}

// TestPlans prints the table of docs/papers/faillite.md: for each size and plan its time in the median, and what share it is
// worth of a bound, in the mean and at worst. The bound is Lagrange's, which plans need not reach: of the optimum where
// there are only four bins, and of the best of all plans here and a search four times as long where memory is
// shared. What is served at once is above 0.985 of it in the mean up to 200 × 40, and places no fewer than 0.99
// of what a thorough search places.
//
//	make oracle
func TestPlans(t *testing.T) {
	sizes := []struct{ applications, bins, problems int }{{12, 4, 24}, {50, 10, 24}, {200, 40, 12}, {640, 100, 6}, {1000, 30, 6}}
	if os.Getenv("GEARSHIFT_ORACLE_PLACEMENTS") == "" {
		sizes = sizes[:2]
		sizes[0].problems, sizes[1].problems = 6, 6
	}
	for _, kind := range []string{"drawn", "shared"} {
		t.Run(kind, func(t *testing.T) {
			fmt.Printf("\n| applications × servers | plan | time | share of the bound, mean | worst | placed |\n|---|---|---|---|---|---|\n")
			for _, size := range sizes {
				tabulate(t, kind, size.applications, size.bins, size.problems)
			}
		})
	}
}

// tabulate prints the rows of a size.
func tabulate(t *testing.T, kind string, applications, bins, n int) {
	t.Helper()
	var problems []*Problem
	for seed := range uint64(n) {
		room := []float64{0.25, 0.4, 0.6}[seed%3]
		p := drawn(2000+seed, applications, bins, 1+int(seed%2), 4, room)
		if kind == "shared" {
			p = drawnShared(2000+seed, applications, bins, room/2)
		}
		problems = append(problems, p)
	}
	best := func(p *Problem, x *Plan) float64 { return lagrangian(p, x.Placed) }
	switch {
	case kind == "shared":
		long := map[*Problem]*Plan{}
		best = func(p *Problem, x *Plan) float64 {
			if long[p] == nil {
				long[p] = p.Plan(4 * p.Thorough())
			}
			return max(long[p].Objective, x.Objective)
		}
	case bins == 4:
		best = func(p *Problem, x *Plan) float64 { return p.Exact(nil, nil).Objective }
	}
	var rows []planned
	for _, x := range plans {
		row := plan(t, problems, x.plan, best)
		rows = append(rows, row)
		fmt.Printf("| %d × %d | %s | %.1f ms | %.4f | %.4f | %d of %d |\n", applications, bins, x.name, row.took.Seconds()*1e3, row.mean, row.worst, row.placed, n*applications)
	}
	if served, thorough := rows[2], rows[4]; applications <= 200 && served.mean < 0.985 || float64(served.placed) < 0.99*float64(thorough.placed) {
		t.Errorf("%s, %d × %d: what is served at once falls behind: %+v, %+v", kind, applications, bins, served, thorough)
	}
}

// BenchmarkPlans times plans of one problem of each size.
//
//	go test ./router/placement -run none -bench Plans -benchmem
func BenchmarkPlans(b *testing.B) {
	for _, c := range []struct{ applications, bins int }{{12, 4}, {50, 10}, {200, 40}, {640, 100}, {3000, 500}, {1000, 1000}} {
		p := drawn(1, c.applications, c.bins, 1, 4, 0.5)
		for _, x := range plans[:3] {
			b.Run(fmt.Sprintf("%dx%d/%s", c.applications, c.bins, x.name), func(b *testing.B) {
				for b.Loop() {
					x.plan(p)
				}
			})
		}
	}
}
