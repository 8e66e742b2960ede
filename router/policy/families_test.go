package policy_test

import (
	"slices"
	"strings"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
)

func families(t *testing.T, table *fleet.Table) []policy.Family {
	t.Helper()
	list, err := maker(table).Families(true)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every corner of a family's grid is a rule whose name parses to it again, or
// no rule at all.
func TestFamilies(t *testing.T) {
	table := conformance.Fleet(0)
	var names []string
	for _, f := range families(t, table) {
		names = append(names, f.Name)
		made := 0
		for corner := range 1 << min(len(f.Axes), 8) {
			values := make([]float64, len(f.Axes))
			for i, axis := range f.Axes {
				if !slices.IsSorted(axis.Grid) || len(axis.Grid) < 2 {
					t.Errorf("%s: the grid of %s is %v", f.Name, axis.Name, axis.Grid)
				}
				values[i] = axis.Grid[corner>>i&1*(len(axis.Grid)-1)]
			}
			rule, err := f.Make(values)
			if err != nil {
				if !strings.Contains(err.Error(), "ascend") {
					t.Errorf("%s%v: %v", f.Name, values, err)
				}
				continue
			}
			made++
			if again := parse(t, rule.Name(), table); again.Name() != rule.Name() {
				t.Errorf("%s parses to %s", rule.Name(), again.Name())
			}
		}
		if made == 0 {
			t.Errorf("%s: no corner of the grid is a rule", f.Name)
		}
	}
	want := []string{"threshold", "task-threshold", "slackfit:f", "slackfit:f,k", "least-work:b,w", "priced:l,s,o,u,b", "task-aware:f,g,k,h,b", "budget:s,c,f,g,k,h,b", "universal:s,n,o,u,b"}
	if !slices.Equal(names, want) {
		t.Errorf("families %v, want %v", names, want)
	}
}

// At first all tasks share a ladder.
func TestTaskThresholdsAreTiedByStep(t *testing.T) {
	axes := families(t, conformance.Fleet(0))[1].Axes
	if len(axes) != 8 || axes[0].Tie != axes[6].Tie || axes[1].Tie != axes[7].Tie || axes[0].Tie == axes[1].Tie {
		t.Errorf("the axes are %+v", axes)
	}
	// 7 sequences fit the large replicas, 51 the next and 98 the smallest.
	if grid := axes[0].Grid; grid[len(grid)-1] != 4*(7+51+98) || grid[0] < 1 {
		t.Errorf("the limits go from %v to %v, want up to %d", grid[0], grid[len(grid)-1], 4*(7+51+98))
	}
}

func TestFamiliesNeedProfiles(t *testing.T) {
	if _, err := (&policy.Maker{Table: conformance.Fleet(0)}).Families(true); err == nil {
		t.Error("no profiles pass for 12 replicas")
	}
}
