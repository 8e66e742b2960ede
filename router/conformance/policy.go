package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
)

// Policy holds p, made for the fleet t, to the contract of [router.Policy].
func Policy(t *testing.T, table *fleet.Table, p router.Policy) {
	t.Helper()
	for _, check := range policyChecks {
		t.Run(check.name, func(t *testing.T) {
			if err := check.run(table, p); err != nil {
				t.Errorf("policy %q: %v", p.Name(), err)
			}
		})
	}
}

var policyChecks = []check[router.Policy]{
	{"introduces itself", policyIntroduction},
	{"chooses what is available", policyChoices},
	{"is pure", policyPurity},
	{"allocates nothing", policyAllocations},
	{"is shared by goroutines", policySharing},
	{"places where it decides", policyPlacing},
}

func policyIntroduction(table *fleet.Table, p router.Policy) error {
	if p.Name() == "" || p.Scratch() < 0 {
		return fmt.Errorf("the name %q is empty or the scratch %d negative", p.Name(), p.Scratch())
	}
	if m, ok := p.(router.Matcher); ok {
		return m.Match(table)
	}
	return nil
}

func policyChoices(table *fleet.Table, p router.Policy) error {
	scratch := make([]float32, p.Scratch())
	for seed := range uint64(views) {
		x := draw(table, seed)
		m := p.Decide(&x.view, &x.request, scratch)
		if err := x.unchanged(); err != nil {
			return err
		}
		switch {
		case m == -1 && available(&x.view) > 0:
			return fmt.Errorf("%v: no choice, with %d replicas available", x, available(&x.view))
		case m < -1 || m >= len(table.Variants):
			return fmt.Errorf("%v: chose %d, which is no variant", x, m)
		case m >= 0 && !x.view.VariantAvailable(m):
			return fmt.Errorf("%v: chose variant %d, which is not available", x, m)
		}
	}
	return nil
}

// policyPurity decides each view twice, the second time in reverse order and
// on scratch full of NaN: neither history nor old scratch may count.
func policyPurity(table *fleet.Table, p router.Policy) error {
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
			return fmt.Errorf("%v: chose %d at first, %d later", x, first[seed], m)
		}
	}
	return nil
}

func policyAllocations(table *fleet.Table, p router.Policy) error {
	x, scratch := busy(table), make([]float32, p.Scratch())
	for _, predicted := range []bool{false, true} {
		if x.request.Predicted = (fleet.Prediction{}); predicted {
			x.predict(table, rand.New(rand.NewPCG(x.seed, 1)))
		}
		if n := testing.AllocsPerRun(200, func() { p.Decide(&x.view, &x.request, scratch) }); n != 0 {
			return fmt.Errorf("%v: Decide allocates %v times", x, n)
		}
	}
	return nil
}

// policySharing has goroutines decide the same views at once, each with its own
// scratch. It sees most under the race detector.
func policySharing(table *fleet.Table, p router.Policy) error {
	examples := make([]*example, 200)
	alone := make([]int, len(examples))
	scratch := make([]float32, p.Scratch())
	for i := range examples {
		examples[i] = draw(table, uint64(i))
		alone[i] = p.Decide(&examples[i].view, &examples[i].request, scratch)
	}
	return together(func() error {
		own := make([]float32, p.Scratch())
		for i, x := range examples {
			if m := p.Decide(&x.view, &x.request, own); m != alone[i] {
				return fmt.Errorf("%v: chose %d alone, %d in company", x, alone[i], m)
			}
		}
		return nil
	})
}

// together runs f on several goroutines and returns one of their errors.
func together(f func() error) error {
	const goroutines = 4
	errs := make(chan error, goroutines)
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			if err := f(); err != nil {
				errs <- err
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}
