package bands

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/highs"
)

// drawn is a problem of hosts of two kinds with the resources of DefaultOptions, whose use is
// far from even.
func drawn(seed uint64, hosts, replicas int) *Problem {
	random := rand.New(rand.NewPCG(seed, 7))
	p := &Problem{}
	for i := range hosts {
		cores := []float64{16, 32}[i%2]
		p.Bins = append(p.Bins, Bin{Capacity: []float64{cores, 4 * cores, 8 * cores}, Other: []float64{0, 0, random.Float64() * cores}})
	}
	for i := 0; i < replicas; {
		cpu := 1 + 9*random.Float64()*random.Float64()
		r := Item{Model: i / 2, Host: random.IntN(hosts), Use: []float64{cpu, 4 + 16*random.Float64(), cpu * (1 + 9*random.Float64())}, Fixed: random.IntN(8) == 0}
		if i%2 == 1 && r.Host == p.Items[i-1].Host {
			continue
		}
		p.Items = append(p.Items, r)
		i++
	}
	return p
}

// program is the problem as an integer program: a binary for each replica and host, and a
// number for each host and resource, which is how much it uses beyond.
func program(p *Problem, o *Options, moves int) string {
	x := p.planner(o)
	n := len(o.Resources)
	var objective, rows, binaries []string
	var stay []string
	used := make([][]string, len(p.Bins)*n)
	for i := range p.Items {
		r := &p.Items[i]
		var once []string
		for h := range p.Bins {
			if h != r.Host && (r.Fixed || x.there[[2]int{r.Model, h}]) {
				continue
			}
			v := fmt.Sprintf("x_%d_%d", i, h)
			binaries, once = append(binaries, v), append(once, v)
			for k, u := range r.Use {
				if !o.Resources[k].Held || h != r.Host {
					used[h*n+k] = append(used[h*n+k], fmt.Sprintf("%.12g %s", u, v))
				}
			}
			if h == r.Host {
				stay = append(stay, v)
			}
		}
		rows = append(rows, fmt.Sprintf("one_%d: %s = 1", i, strings.Join(once, " + ")))
	}
	// Of two replicas of a model, one goes to a host.
	for i := range p.Items {
		for j := range i {
			for h := range p.Bins {
				a, b := fmt.Sprintf("x_%d_%d", i, h), fmt.Sprintf("x_%d_%d", j, h)
				if p.Items[i].Model == p.Items[j].Model && slices.Contains(binaries, a) && slices.Contains(binaries, b) {
					rows = append(rows, fmt.Sprintf("apart_%d_%d_%d: %s + %s <= 1", i, j, h, a, b))
				}
			}
		}
	}
	for h := range p.Bins {
		for k := range n {
			sum := strings.Join(used[h*n+k], " + ")
			if o.Resources[k].Held {
				if sum != "" {
					rows = append(rows, fmt.Sprintf("room_%d_%d: %s <= %.12g", h, k, sum, max(0, x.above[h*n+k]-x.reserve[h*n+k])))
				}
				continue
			}
			e := fmt.Sprintf("e_%d_%d", h, k)
			objective = append(objective, fmt.Sprintf("%.12g %s", x.weight[k], e))
			if sum == "" {
				sum = "0 " + e
			}
			rows = append(rows, fmt.Sprintf("beyond_%d_%d: %s - %s <= %.12g", h, k, sum, e, x.above[h*n+k]-p.Bins[h].Other[k]))
		}
	}
	rows = append(rows, fmt.Sprintf("moves: %s >= %d", strings.Join(stay, " + "), len(p.Items)-moves))
	return fmt.Sprintf("Minimize\n obj: %s\nSubject To\n %s\nBinary\n %s\nEnd\n", strings.Join(objective, " + "), strings.Join(rows, "\n "), strings.Join(binaries, " "))
}

// TestPlansAgainstHiGHS: what plans leave beyond bands and limits, of drawn problems of 3 to 6
// hosts and 8 to 14 replicas with up to 2 to 5 moves, is close to the least that there can be.
func TestPlansAgainstHiGHS(t *testing.T) {
	o := DefaultOptions()
	o.Gain = 0
	var programs []highs.Program
	var problems []*Problem
	moves := func(i int) int { return 2 + i%4 }
	for seed := range uint64(40) {
		p := drawn(seed, 3+int(seed%4), 8+2*int(seed%4))
		if err := p.Validate(&o); err != nil {
			t.Fatal(err)
		}
		problems = append(problems, p)
		programs = append(programs, highs.Program{Text: program(p, &o, moves(len(programs))), Options: map[string]any{"mip_rel_gap": 0, "mip_abs_gap": 1e-9}})
	}
	var parts []float64
	best := 0
	for i, s := range highs.Solve(t, programs) {
		p := problems[i]
		o.Moves = moves(i)
		plan := p.Plan(&o)
		held(t, p, &o, plan)
		before, after := p.Excess(&o, nil), p.Excess(&o, plan)
		if s.Status != "Optimal" || after < s.Objective-1e-6 {
			t.Errorf("problem %d: %v beyond after %d moves, by HiGHS (%s) %v", i, after, len(plan), s.Status, s.Objective)
		}
		if before-s.Objective > 1e-6 {
			part := (before - after) / (before - s.Objective)
			parts = append(parts, part)
			if part > 1-1e-6 {
				best++
			}
		}
	}
	slices.Sort(parts)
	t.Logf("of %d problems %d plans are the best; of what can be had: worst %.3f, a tenth below %.3f, median %.3f", len(parts), best, parts[0], parts[len(parts)/10], parts[len(parts)/2])
	if parts[len(parts)/2] < 1-1e-6 || parts[len(parts)/10] < 0.95 || parts[0] < 0.8 {
		t.Errorf("plans reach %.3f of what can be had in the median, %.3f at worst", parts[len(parts)/2], parts[0])
	}
}

// held checks that moves may be made: each replica once, none that is fixed, no host with a
// model twice, and no more of a held resource than there is while all replicas that move are
// on both of their hosts.
func held(t *testing.T, p *Problem, o *Options, moves []Transfer) {
	t.Helper()
	if o.Moves > 0 && len(moves) > o.Moves {
		t.Errorf("%d moves, at most %d are wanted", len(moves), o.Moves)
	}
	moved := map[int]bool{}
	models := map[[2]int]bool{}
	used := map[[2]int]float64{}
	for i := range p.Items {
		r := &p.Items[i]
		models[[2]int{r.Model, r.Host}] = true
		for k := range o.Resources {
			used[[2]int{r.Host, k}] += r.Use[k]
		}
	}
	for _, m := range moves {
		r := &p.Items[m.Replica]
		at := [2]int{r.Model, m.To}
		if moved[m.Replica] || r.Fixed || models[at] {
			t.Errorf("%v: a replica that is fixed, moved already, or whose model is there", m)
		}
		moved[m.Replica], models[at] = true, true
		for k, u := range r.Use {
			used[[2]int{m.To, k}] += u
		}
	}
	for h := range p.Bins {
		for k, r := range o.Resources {
			c := p.Bins[h].Capacity[k]
			if touched := slices.ContainsFunc(moves, func(m Transfer) bool { return m.To == h }); r.Held && touched && c > 0 && used[[2]int{h, k}]+p.Bins[h].Other[k] > c*r.Limit*(1+1e-9) {
				t.Errorf("host %d: %v of %v %s are taken while replicas move", h, used[[2]int{h, k}], c, r.Name)
			}
		}
	}
	if before, after := p.Excess(o, nil), p.Excess(o, moves); after > before+1e-12 || math.IsNaN(after) {
		t.Errorf("%v beyond bands and limits before the moves, %v after", before, after)
	}
}
