package placement

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

// lagrangian is a bound on the objective of plans that place as many as so many: Lagrange's, with
// all servers as one, so that only resources have prices, and a place.
func lagrangian(p *Problem, placed int) float64 {
	l, budget := p.ledger(), p.budget()
	n := len(budget)
	fits := make([][]bool, len(p.Applications)) // any server, by application and variant
	for i := range p.Applications {
		for v := range p.Applications[i].Variants {
			any := false
			for s := range p.Servers {
				any = any || p.May(&p.Applications[i], s) && l.has(&p.Applications[i].Variants[v], s)
			}
			fits[i] = append(fits[i], any)
		}
	}
	prices, best := make([]float64, n+1), math.Inf(1) // by resource, per share of the budget; then of a skip
	used := make([]float64, n+1)
	const steps = 20000
	for step := range steps {
		bound := prices[n] * float64(len(p.Applications)-placed)
		for r := range budget {
			bound += prices[r]
			used[r] = -1
		}
		used[n] = -float64(len(p.Applications) - placed)
		for i := range p.Applications {
			a := &p.Applications[i]
			most, at := -prices[n], -1
			for v := range a.Variants {
				w := &a.Variants[v]
				if !a.quick(w) || !fits[i][v] {
					continue
				}
				value := w.Quality * a.Rate
				for r, d := range w.Demand {
					value -= prices[r] * d / budget[r]
				}
				if value > most {
					most, at = value, v
				}
			}
			if bound += most; at < 0 {
				used[n]++
				continue
			}
			for r, d := range a.Variants[at].Demand {
				used[r] += d / budget[r]
			}
		}
		best = min(best, bound)
		length := 0.0
		for _, x := range used {
			length += x * x
		}
		for k, x := range used {
			prices[k] = max(0, prices[k]+float64(len(p.Applications))*math.Pow(0.9993, float64(step))*x/math.Sqrt(length))
		}
	}
	return best
}

// TestGreedyAgainstBounds holds our heuristic against Lagrange's bound on problems of 200
// applications and 40 servers, and of 640 and 100, of which no solver proves an optimum in a
// minute. The bound is above what any plan reaches, so the true shares are higher.
//
//	make oracle
func TestGreedyAgainstBounds(t *testing.T) {
	if os.Getenv("GEARSHIFT_ORACLE_PLACEMENTS") == "" {
		t.Skip("runs for a minute: GEARSHIFT_ORACLE_PLACEMENTS=20 has it run, as make oracle does")
	}
	for _, size := range []struct {
		applications, servers, problems int
		least                           float64 // of the bound, which no plan need reach
	}{{200, 40, 9, 0.98}, {640, 100, 6, 0.93}} {
		var shares, ms []float64
		for seed := range uint64(size.problems) {
			p := drawn(seed, size.applications, size.servers, 1+int(seed%2), 4, []float64{0.25, 0.4, 0.6}[seed%3])
			began := time.Now()
			x := p.Greedy()
			ms = append(ms, float64(time.Since(began).Microseconds())/1e3)
			held(t, p, x)
			bound := lagrangian(p, x.Placed)
			shares = append(shares, x.Objective/bound)
			t.Logf("%d × %d, problem %d: %d placed, objective %.5f of the bound, %.1f ms", size.applications, size.servers, seed, x.Placed, x.Objective/bound, ms[seed])
		}
		slices.Sort(shares)
		slices.Sort(ms)
		t.Logf("%d × %d: median %.5f of the bound, worst %.5f; median %.1f ms", size.applications, size.servers, shares[len(shares)/2], shares[0], ms[len(ms)/2])
		if shares[len(shares)/2] < 0.99 || shares[0] < size.least {
			t.Error("ours falls behind")
		}
	}
}
