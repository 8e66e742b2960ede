package conformance

import (
	"math"
	"sync"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
)

// Policy holds p, made for the fleet t, to the contract of [router.Policy].
func Policy(t *testing.T, table *fleet.Table, p router.Policy) {
	t.Helper()
	if p.Name() == "" || p.Scratch() < 0 {
		t.Fatalf("name %q is empty or scratch %d negative", p.Name(), p.Scratch())
	}
	t.Run("matches its fleet", func(t *testing.T) {
		if m, ok := p.(router.Matcher); ok && m.Match(table) != nil {
			t.Fatal(m.Match(table))
		}
	})
	t.Run("chooses what is available", func(t *testing.T) { policyChoices(t, table, p) })
	t.Run("is pure", func(t *testing.T) { policyPurity(t, table, p) })
	t.Run("allocates nothing", func(t *testing.T) {
		x, scratch := busyWith(table), make([]float32, p.Scratch())
		if n := testing.AllocsPerRun(200, func() { p.Decide(&x.view, &x.request, scratch) }); n != 0 {
			t.Fatalf("Decide allocates %v times", n)
		}
	})
	t.Run("is shared by goroutines", func(t *testing.T) { policySharing(t, table, p) })
}

func policyChoices(t *testing.T, table *fleet.Table, p router.Policy) {
	scratch := make([]float32, p.Scratch())
	for seed := range uint64(views) {
		x := draw(table, seed)
		switch m := p.Decide(&x.view, &x.request, scratch); {
		case m == -1 && available(&x.view) > 0:
			t.Fatalf("%v: no choice, with %d replicas available", x, available(&x.view))
		case m < -1 || m >= len(table.Variants):
			t.Fatalf("%v: chose %d, which is no variant", x, m)
		case m >= 0 && !x.view.VariantAvailable(m):
			t.Fatalf("%v: chose variant %d, which is not available", x, m)
		}
		x.unchanged(t)
	}
}

// policyPurity decides each view twice, the second time in reverse order and
// on scratch full of NaN: neither history nor old scratch may count.
func policyPurity(t *testing.T, table *fleet.Table, p router.Policy) {
	scratch := make([]float32, p.Scratch())
	first := make([]int, views)
	for seed := range first {
		x := draw(table, uint64(seed))
		first[seed] = p.Decide(&x.view, &x.request, scratch)
	}
	for seed := views - 1; seed >= 0; seed-- {
		for i := range scratch {
			scratch[i] = float32(math.NaN())
		}
		x := draw(table, uint64(seed))
		if m := p.Decide(&x.view, &x.request, scratch); m != first[seed] {
			t.Fatalf("%v: chose %d at first, %d later", x, first[seed], m)
		}
	}
}

// policySharing has goroutines decide the same views at once, each with its own
// scratch. It sees most under the race detector.
func policySharing(t *testing.T, table *fleet.Table, p router.Policy) {
	examples := make([]*example, 200)
	alone := make([]int, len(examples))
	scratch := make([]float32, p.Scratch())
	for i := range examples {
		examples[i] = draw(table, uint64(i))
		alone[i] = p.Decide(&examples[i].view, &examples[i].request, scratch)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			own := make([]float32, p.Scratch())
			for i, x := range examples {
				if m := p.Decide(&x.view, &x.request, own); m != alone[i] {
					t.Errorf("%v: chose %d alone, %d in company", x, alone[i], m)
					return
				}
			}
		})
	}
	group.Wait()
}
