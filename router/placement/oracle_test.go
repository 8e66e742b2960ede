package placement

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/internal/highs"
)

// program is the problem as an integer program: a binary for each application, variant and
// server; first the number placed counts, then Σ quality × rate.
func program(p *Problem) string {
	heavy := 1.0
	for i := range p.Applications {
		a := &p.Applications[i]
		best := 0.0
		for v := range a.Variants {
			best = max(best, a.Variants[v].Quality)
		}
		heavy += best * a.Rate
	}
	var objective, rows, binaries []string
	used := make([][]string, len(p.Servers)*len(p.Resources))
	all := make([][]string, len(p.Resources))
	for i := range p.Applications {
		a, once := &p.Applications[i], []string{}
		for v := range a.Variants {
			w := &a.Variants[v]
			for s := range p.Servers {
				if !a.quick(w) || !p.May(a, s) {
					continue
				}
				x := fmt.Sprintf("x_%d_%d_%d", i, v, s)
				binaries, once = append(binaries, x), append(once, x)
				objective = append(objective, fmt.Sprintf("%.12g %s", heavy+w.Quality*a.Rate, x))
				for r, d := range w.Demand {
					used[s*len(p.Resources)+r] = append(used[s*len(p.Resources)+r], fmt.Sprintf("%v %s", d, x))
					all[r] = append(all[r], fmt.Sprintf("%v %s", d, x))
				}
			}
		}
		if len(once) > 0 {
			rows = append(rows, fmt.Sprintf("one_%d: %s <= 1", i, strings.Join(once, " + ")))
		}
	}
	for s := range p.Servers {
		for r := range p.Resources {
			if list := used[s*len(p.Resources)+r]; len(list) > 0 {
				rows = append(rows, fmt.Sprintf("free_%d_%d: %s <= %v", s, r, strings.Join(list, " + "), p.Servers[s].Free[r]))
			}
		}
	}
	for r, list := range all {
		if len(list) > 0 {
			rows = append(rows, fmt.Sprintf("all_%d: %s <= %.12g", r, strings.Join(list, " + "), p.budget()[r]))
		}
	}
	return fmt.Sprintf("Maximize\n obj: %s\nSubject To\n %s\nBinary\n %s\nEnd\n", strings.Join(objective, " + "), strings.Join(rows, "\n "), strings.Join(binaries, " "))
}

// heavily is what the program's objective makes of a plan.
func heavily(p *Problem, x *Plan) float64 {
	heavy := 1.0
	for i := range p.Applications {
		a := &p.Applications[i]
		best := slices.MaxFunc(a.Variants, func(v, w Alternative) int {
			return int(math.Copysign(1, v.Quality-w.Quality))
		})
		heavy += best.Quality * a.Rate
	}
	return heavy*float64(x.Placed) + x.Objective
}

// TestExactAgainstHiGHS: exact plans of drawn problems, of up to 12 applications and 4
// servers, with one resource and two, are worth what HiGHS finds.
func TestExactAgainstHiGHS(t *testing.T) {
	var programs []highs.Program
	var problems []*Problem
	for seed := range uint64(100) {
		p := drawn(seed, 2+int(seed%11), 2+int(seed%3), 1+int(seed%2), 3+int(seed%2), []float64{0.2, 0.35, 0.6}[seed%3])
		programs = append(programs, highs.Program{Text: program(p), Options: map[string]any{"mip_rel_gap": 0, "mip_abs_gap": 1e-9}})
		problems = append(problems, p)
	}
	var ours, theirs []float64
	for i, s := range highs.Solve(t, programs) {
		began := time.Now()
		x := problems[i].Exact(nil)
		ours, theirs = append(ours, float64(time.Since(began).Microseconds())/1e3), append(theirs, s.MS)
		held(t, problems[i], x)
		if got := heavily(problems[i], x); s.Status != "Optimal" && s.Status != "Empty" || math.Abs(got-s.Objective) > 1e-6*(1+got) || !x.Optimal {
			t.Errorf("problem %d: %d placed, worth %v in all, by HiGHS (%s) %v", i, x.Placed, got, s.Status, s.Objective)
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	t.Logf("median %.2f ms, longest %.0f; HiGHS %.1f and %.0f", ours[50], ours[99], theirs[50], theirs[99])
}

// TestGreedyAgainstHiGHS holds our heuristic against HiGHS on problems of 50 applications and
// 10 servers: as many are placed, and the objective is within 0.5 % of the bound in the
// median, and 1 % at worst. It takes up to a minute for each problem.
//
//	make oracle
func TestGreedyAgainstHiGHS(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("GEARSHIFT_ORACLE_PLACEMENTS"))
	if err != nil || n < 1 {
		t.Skip("runs for minutes: GEARSHIFT_ORACLE_PLACEMENTS=20 says how many problems, as make oracle does")
	}
	var shares []float64
	var ms []float64
	for seed := range uint64(n) {
		p := drawn(seed, 50, 10, 1+int(seed%2), 4, []float64{0.25, 0.4, 0.6}[seed%3])
		s := highs.Solve(t, []highs.Program{{Text: program(p), Options: map[string]any{"time_limit": 60.0, "mip_rel_gap": 1e-5}}})[0]
		began := time.Now()
		x := p.Greedy()
		ms = append(ms, float64(time.Since(began).Microseconds())/1e3)
		held(t, p, x)
		placed := int(s.Objective / (heavily(p, &Plan{Placed: 1})))
		if x.Placed < placed {
			t.Errorf("problem %d: %d placed, by HiGHS %d", seed, x.Placed, placed)
		}
		// What HiGHS has not proved best in time is no bound; Lagrange's is one then.
		bound := s.Objective - heavily(p, &Plan{Placed: x.Placed})
		if s.Status != "Optimal" {
			bound = lagrangian(p, x.Placed)
		}
		shares = append(shares, x.Objective/bound)
		t.Logf("problem %d: %d placed, by HiGHS (%s, %.1f s) %d; objective %.5f of the bound, %.1f ms", seed, x.Placed, s.Status, s.MS/1e3, placed, x.Objective/bound, ms[seed])
	}
	slices.Sort(shares)
	slices.Sort(ms)
	t.Logf("objective by HiGHS's: median %.4f, worst %.4f; median %.1f ms", shares[n/2], shares[0], ms[n/2])
	if shares[n/2] < 0.995 || shares[0] < 0.99 {
		t.Error("ours falls behind")
	}
}
