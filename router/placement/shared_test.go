package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// drawnShared is a random problem whose variants are models of few families, some of which are
// loaded already.
func drawnShared(seed uint64, applications, bins int, room float64) *Problem {
	rng := rand.New(rand.NewPCG(seed, 6))
	p := drawn(seed, applications, bins, 1+int(seed%2), 3, room)
	p.Shared = true
	for i := range p.Items {
		family := rng.IntN(3)
		for v := range p.Items[i].Variants {
			w := &p.Items[i].Variants[v]
			w.Model, w.Demand[0] = fmt.Sprintf("m%d-%d", family, v), float64(20*(family+1)*(v+1))
		}
	}
	for s := range p.Bins {
		if rng.IntN(2) == 0 {
			p.Bins[s].Loaded = []string{fmt.Sprintf("m%d-%d", rng.IntN(3), rng.IntN(3))}
		}
	}
	return p
}

// keptShared fails the test unless the plan keeps the rules of memory, counted in another way
// than by the ledger.
func keptShared(t *testing.T, p *Problem, x *Plan) {
	t.Helper()
	var all float64
	for s := range p.Bins {
		models, taken := map[string]bool{}, 0.0
		for _, m := range p.Bins[s].Loaded {
			models[m] = true
		}
		for i, choice := range x.Choices {
			if choice.Bin != s {
				continue
			}
			if v := &p.Items[i].Variants[choice.Variant]; !models[v.Model] {
				models[v.Model] = true
				taken += v.Demand[0]
			}
		}
		if all += taken; taken > p.Bins[s].Free[0]+1e-6 {
			t.Fatalf("%v of %v are taken on server %d", taken, p.Bins[s].Free[0], s)
		}
	}
	if all > p.budget()[0]+1e-6 {
		t.Fatalf("%v of %v are taken in all", all, p.budget()[0])
	}
}

// TestSharedMemory holds the heuristics against all plans, where models that are there take no
// more memory.
func TestSharedMemory(t *testing.T) {
	var ours, theirs, best, alone int
	var worth, most float64
	for seed := range uint64(80) {
		p := drawnShared(seed, 5, 2+int(seed%2), []float64{0.1, 0.2, 0.4}[seed%3])
		x, y, z := p.Plan(p.AtOnce()), p.Algorithm1(false), exhaustive(p)
		for _, plan := range []*Plan{x, y, z} {
			held(t, p, plan)
			keptShared(t, p, plan)
		}
		ours, theirs, best = ours+x.Placed, theirs+y.Placed, best+z.Placed
		if x.Placed == z.Placed {
			worth, most = worth+x.Objective, most+z.Objective
		}
		if x.Placed > z.Placed || x.Placed == z.Placed && x.Objective > z.Objective+1e-9 {
			t.Errorf("seed %d: a plan better than the best", seed)
		}
		p.Shared = false
		alone += exhaustive(p).Placed
	}
	t.Logf("placed %d, Algorithm 1 %d, the best %d, without sharing %d; worth %.4f of the best where as many are placed", ours, theirs, best, alone, worth/most)
	if float64(ours) < 0.98*float64(best) || worth < 0.96*most || alone >= best {
		t.Error("ours falls behind, or sharing gains nothing")
	}
}

// TestSharedLedger has backups come and go: what is taken is what is there.
func TestSharedLedger(t *testing.T) {
	p := drawnShared(3, 8, 3, 2)
	l, rng := p.ledger(), rand.New(rand.NewPCG(1, 1))
	x := &Plan{Choices: make([]Choice, len(p.Items))}
	for i := range x.Choices {
		x.Choices[i] = none
	}
	for range 2000 {
		i := rng.IntN(len(x.Choices))
		a := &p.Items[i]
		if choice := x.Choices[i]; choice != none {
			l.drop(i, choice.Variant, choice.Bin)
			x.Choices[i] = none
			continue
		}
		choice := Choice{rng.IntN(len(a.Variants)), rng.IntN(len(p.Bins))}
		if l.has(i, choice.Variant, choice.Bin) {
			l.add(i, choice.Variant, choice.Bin)
			x.Choices[i] = choice
		}
		keptShared(t, p, x)
	}
	for i, choice := range x.Choices {
		if choice != none {
			l.drop(i, choice.Variant, choice.Bin)
		}
	}
	for s := range p.Bins {
		for r, free := range p.Bins[s].Free {
			if d := l.free[s][r] - free; d > 1e-6 || d < -1e-6 {
				t.Errorf("server %d has %v of %v after all have gone", s, l.free[s][r], free)
			}
		}
	}
}

// TestExcluded keeps backups off the bins of an application's list.
func TestExcluded(t *testing.T) {
	p := family(2, 400, 300)
	p.Items[0].Excluded = []string{"S1"}
	p.Items[1].Excluded = []string{"S1", "S2"}
	for _, x := range []*Plan{p.Plan(1 << 18), p.Algorithm1(false), p.Exact(nil, nil)} {
		if got := written(p, x); got != "S@S2 -" {
			t.Errorf("%s, want S@S2 -", got)
		}
		if why := p.Reasons(x)(1); why != "every host is its primary's or excluded" || why != p.Why(x, 1) {
			t.Errorf("reason: %q", why)
		}
	}
}
