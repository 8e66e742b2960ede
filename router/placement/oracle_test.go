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

// program is the problem as an integer program: a binary for each application, variant and bin. It maximises how
// many have a backup, or, with at least so many, Σ quality × rate. Where memory is shared, a binary for each model and
// bin takes it, and is at least as large as those of the variants that run it.
func program(p *Problem, placed int) string {
	var objective, rows, binaries, every []string
	terms := make([][]string, (len(p.Bins)+1)*len(p.Resources)) // by bin and resource, then of all
	takes := func(s, r int, amount float64, x string) {
		for _, at := range []int{s, len(p.Bins)} {
			terms[at*len(p.Resources)+r] = append(terms[at*len(p.Resources)+r], fmt.Sprintf("%v %s", amount, x))
		}
	}
	models := map[string]string{} // binaries, by model and bin
	for i := range p.Items {
		a, once := &p.Items[i], []string{}
		for v := range a.Variants {
			w := &a.Variants[v]
			for s := range p.Bins {
				if !a.quick(w) || !p.May(a, s) {
					continue
				}
				x := fmt.Sprintf("x_%d_%d_%d", i, v, s)
				binaries, once, every = append(binaries, x), append(once, x), append(every, x)
				objective = append(objective, fmt.Sprintf("%.15g %s", w.Quality*a.Rate, x))
				for r, d := range w.Demand {
					switch key := fmt.Sprint(w.Model, " ", s); {
					case r > 0 || !p.Shared || w.Model == "":
						takes(s, r, d, x)
					case slices.Contains(p.Bins[s].Loaded, w.Model):
					default:
						if models[key] == "" {
							models[key] = fmt.Sprintf("y_%d_%d", len(models), s)
							binaries = append(binaries, models[key])
							takes(s, 0, d, models[key])
						}
						rows = append(rows, fmt.Sprintf("runs_%s: %s - %s <= 0", x, x, models[key]))
					}
				}
			}
		}
		if len(once) > 0 {
			rows = append(rows, fmt.Sprintf("one_%d: %s <= 1", i, strings.Join(once, " + ")))
		}
	}
	if len(every) == 0 {
		every, objective, binaries = []string{"none"}, []string{"0 none"}, []string{"none"}
		rows = append(rows, "none: none <= 0")
	}
	for k, list := range terms {
		s, r := k/len(p.Resources), k%len(p.Resources)
		limit := p.budget()[r]
		if s < len(p.Bins) {
			limit = p.Bins[s].Free[r]
		}
		if len(list) > 0 {
			rows = append(rows, fmt.Sprintf("free_%d: %s <= %.15g", k, strings.Join(list, " + "), limit))
		}
	}
	if placed < 0 {
		objective = every
	} else {
		rows = append(rows, fmt.Sprintf("placed: %s >= %d", strings.Join(every, " + "), placed))
	}
	return fmt.Sprintf("Maximize\n obj: %s\nSubject To\n %s\nBinary\n %s\nEnd\n", strings.Join(objective, " + "), strings.Join(rows, "\n "), strings.Join(binaries, " "))
}

// optimum holds what HiGHS finds of a problem.
type optimum struct {
	placed    int
	objective float64 // with so many placed
	proved    bool
	ms        float64
}

// optima has HiGHS solve the problems, each for so many seconds.
func optima(t *testing.T, problems []*Problem, seconds float64) []optimum {
	t.Helper()
	solve := func(list []optimum) []highs.Solution {
		var programs []highs.Program
		for k, p := range problems {
			programs = append(programs, highs.Program{Text: program(p, list[k].placed), Options: map[string]any{"time_limit": seconds, "mip_rel_gap": 1e-6, "mip_abs_gap": 1e-9}})
		}
		return highs.Solve(t, programs)
	}
	list := slices.Repeat([]optimum{{placed: -1}}, len(problems))
	for k, s := range solve(list) {
		list[k] = optimum{placed: int(math.Round(s.Objective)), proved: s.Status == "Optimal", ms: s.MS}
	}
	for k, s := range solve(list) {
		list[k].objective, list[k].proved, list[k].ms = s.Objective, list[k].proved && s.Status == "Optimal", list[k].ms+s.MS
	}
	return list
}

// TestExactAgainstHiGHS: exact plans of drawn problems, of up to 12 applications and 4
// bins, with one resource and two, are worth what HiGHS finds.
func TestExactAgainstHiGHS(t *testing.T) {
	var problems []*Problem
	for seed := range uint64(100) {
		problems = append(problems, drawn(seed, 2+int(seed%11), 2+int(seed%3), 1+int(seed%2), 3+int(seed%2), []float64{0.2, 0.35, 0.6}[seed%3]))
	}
	var ours, theirs []float64
	for i, best := range optima(t, problems, 60) {
		began := time.Now()
		x := problems[i].Exact(nil, nil)
		ours, theirs = append(ours, float64(time.Since(began).Microseconds())/1e3), append(theirs, best.ms)
		held(t, problems[i], x)
		if x.Placed != best.placed || math.Abs(x.Objective-best.objective) > 1e-5*(1+x.Objective) || !x.Optimal || !best.proved {
			t.Errorf("problem %d: %d placed, worth %v, by HiGHS %d and %v", i, x.Placed, x.Objective, best.placed, best.objective)
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	t.Logf("median %.2f ms, longest %.0f; HiGHS %.1f and %.0f", ours[50], ours[99], theirs[50], theirs[99])
}

// small is a drawn problem of any shape that HiGHS solves quickly: of one bin to four, and of one application to
// twelve; of each two one has memory that is shared.
func small(seed uint64) *Problem {
	applications, bins := 1+int(seed%12), 1+int(seed/12%4)
	if seed%2 == 0 {
		return drawnShared(seed, applications, bins, 0.1+0.1*float64(seed%5))
	}
	return varied(seed, applications, bins, 0.1)
}

// TestServedPlansAgainstHiGHS holds the plans that are served at once against the best there are, on small problems of all
// shapes: each places as many, and none is worth less than 0.97 of the best.
//
//	make oracle PLACEMENTS=292 SEED=1
func TestServedPlansAgainstHiGHS(t *testing.T) {
	n, first := 48, 58000
	for name, x := range map[string]*int{"GEARSHIFT_ORACLE_PLACEMENTS": &n, "GEARSHIFT_ORACLE_SEED": &first} {
		if text := os.Getenv(name); text != "" {
			var err error
			if *x, err = strconv.Atoi(text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	var problems []*Problem
	for k := range n {
		problems = append(problems, small(uint64(first+k)))
	}
	worst, sum := 1.0, 0.0
	for k, best := range optima(t, problems, 20) {
		p := problems[k]
		x := p.Plan(p.AtOnce())
		held(t, p, x)
		share := 1.0
		if best.objective > 0 {
			share = x.Objective / best.objective
		}
		if worst, sum = min(worst, share), sum+share; x.Placed < best.placed || x.Placed == best.placed && share < 0.97 {
			t.Errorf("problem %d, %d × %d, shared %v: %d placed, worth %.4f, of %d, worth %.4f (proved: %v)", k, len(p.Items), len(p.Bins), p.Shared, x.Placed, x.Objective, best.placed, best.objective, best.proved)
		}
	}
	t.Logf("%d problems: %.5f of the best in the mean, %.4f at worst", n, sum/float64(n), worst)
}
