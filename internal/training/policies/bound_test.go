package policies

import (
	"testing"

	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// No rule is above the fluid bound at a steady rate, beyond noise, in any
// built-in scenario whose engines work token by token.
func TestRulesStayUnderTheFluidBound(t *testing.T) {
	for _, name := range scenario.Fleets() {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Profiles()[0].Batches != nil {
			continue
		}
		work, err := s.Evaluated([]string{"poisson:1", "poisson:4", "poisson:16", "poisson:40"}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		list := workloads.Seeds(workloads.Validation, 4)
		fluid, err := FluidBound(t.Context(), s, work, list)
		if err != nil || len(fluid) != len(work) {
			t.Fatalf("%s: %d bounds, %v", name, len(fluid), err)
		}
		for _, ref := range []string{"threshold", "slackfit", "static:" + s.Variants[0].Name} {
			c, err := OnWholeFleet(s, nil, ref, nil)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := PlayBound(t.Context(), c, work, list)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range rows {
				if x.Utility.Lo > fluid[i].Utility {
					t.Errorf("%s, %s: %s earns %+v, the bound is %v", name, x.Workload, ref, x.Utility, fluid[i].Utility)
				}
			}
		}
	}
}
