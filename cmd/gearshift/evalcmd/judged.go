package evalcmd

import (
	"fmt"
	"slices"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/router/fleet"
)

// judgedBy returns the tasks by which answers are judged instead of s's own: those of the scenario
// ref, which must have tasks and sizes of the same names. It is nil if ref is empty.
func judgedBy(s *scenario.Scenario, ref string) ([]fleet.Task, error) {
	if ref == "" {
		return nil, nil
	}
	other, err := scenario.Load(ref)
	if err != nil {
		return nil, err
	}
	t, own := other.Table(), s.Table()
	sameTask := func(a, b fleet.Task) bool { return a.Name == b.Name }
	if !slices.EqualFunc(t.Tasks, own.Tasks, sameTask) || !slices.EqualFunc(t.Variants, own.Variants, func(a, b fleet.Variant) bool { return a.Name == b.Name }) {
		return nil, fmt.Errorf("--judged-by %s: its tasks and variants are not those of %s; want the same names in the same order", ref, s.Name)
	}
	return t.Tasks, nil
}
