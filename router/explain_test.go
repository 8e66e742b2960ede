package router_test

import (
	"math"
	"slices"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
)

// values is a policy that wants the last variant and tells what it goes by.
type values struct{ panics bool }

func (values) Name() string { return "values@2" }
func (values) Scratch() int { return 3 }
func (values) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	for m := 2; m >= 0; m-- {
		if v.VariantAvailable(m) {
			return m
		}
	}
	return -1
}

func (p values) Explain(v *fleet.View, _ *fleet.Request, scratch []float32) ([]float32, string) {
	if p.panics {
		panic("nothing to say")
	}
	for m := range scratch {
		scratch[m] = float32(m) / 2
	}
	scratch[0] = float32(math.NaN())
	return scratch, "the last"
}

// inquirer is an observer that asks for explanations.
type inquirer struct {
	notes
	values []float32
	why    string
}

func (q *inquirer) ObserveExplanation(values []float32, why string) {
	q.values, q.why = slices.Clone(values), why
}

func TestAnObserverMayAskForTheExplanation(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, values{})
	var seen inquirer
	if _, err := core.Route(-1, &fleet.Request{}, 0, &seen); err != nil {
		t.Fatal(err)
	}
	if len(seen.values) != 3 || !math.IsNaN(float64(seen.values[0])) || seen.values[2] != 1 || seen.why != "the last" || seen.choice.Variant != 2 {
		t.Errorf("explained %v, %q, %+v", seen.values, seen.why, seen.choice)
	}
	var pinned inquirer
	if _, err := core.Route(0, &fleet.Request{}, 0, &pinned); err != nil || pinned.values != nil || pinned.choice.Policy != router.Pinned {
		t.Errorf("of a pinned variant: %v, explained %v, %+v", err, pinned.values, pinned.choice)
	}
}

// A policy that panics over its explanation has decided all the same.
func TestAnExplanationThatPanicsLosesNoPlace(t *testing.T) {
	var panics []string
	core := newCore(t, 0, func(c *router.Config) { c.OnPanic = func(name string, _ any) { panics = append(panics, name) } })
	setPolicy(t, core, values{panics: true})
	var seen inquirer
	choice, err := core.Route(-1, &fleet.Request{}, 0, &seen)
	if err != nil || seen.values != nil || seen.choice.Variant != 2 || !slices.Equal(panics, []string{"values@2"}) {
		t.Errorf("error %v, observer %+v, panics of %v", err, seen, panics)
	}
	if !choice.Lease.End() || core.Ledger().InFlight() != 0 {
		t.Error("the place is lost")
	}
}
