package conformance

import (
	"fmt"
	"math"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
)

// policyPlacing holds a policy that is a [router.Placer] to that contract; others
// pass.
func policyPlacing(table *fleet.Table, p router.Policy) error {
	placer, ok := p.(router.Placer)
	if !ok {
		return nil
	}
	scratch := make([]float32, p.Scratch())
	for seed := range uint64(views) {
		x := draw(table, seed)
		m := p.Decide(&x.view, &x.request, scratch)
		for i := range scratch {
			scratch[i] = float32(math.NaN())
		}
		replica := placer.Place(&x.view, &x.request, scratch)
		if err := x.unchanged(); err != nil {
			return err
		}
		switch {
		case replica == -1 && available(&x.view) == 0 && m == -1:
		case replica < 0 || replica >= len(table.Replicas) || !x.view.Available(replica):
			return fmt.Errorf("%v: placed on replica %d, which is not available", x, replica)
		case table.Replicas[replica].Variant != m:
			return fmt.Errorf("%v: placed on replica %d, but decided on variant %d", x, replica, m)
		}
	}
	x := busy(table)
	if n := testing.AllocsPerRun(200, func() { placer.Place(&x.view, &x.request, scratch) }); n != 0 {
		return fmt.Errorf("%v: Place allocates %v times", x, n)
	}
	return nil
}
