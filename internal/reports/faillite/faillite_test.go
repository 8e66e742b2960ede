package faillite

import (
	"fmt"
	"reflect"
	"testing"

	"gearshift/env"
	"gearshift/internal/reports"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/placement"
)

// TestReport: a short report is whole, and the same twice.
func TestReport(t *testing.T) {
	made := func() string {
		p := &paper{Run: &reports.Run{Seeds: 2, Only: []string{"models", "one-application", "headline", "constraints", "criticality", "family-classes", "site-losses"}}, each: 1, sited: 1,
			points: points{headrooms: []float64{10, 20}, criticals: []float64{0, 100}, classes: []string{"large"}, sites: []int{1}}}
		s := p.study()
		r, err := s.Make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.Repeat = "again"
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		if len(r.Sections) != 7 || len(r.Verdict) != 3 {
			t.Errorf("%d sections, verdict %q", len(r.Sections), r.Verdict)
		}
		return fmt.Sprintf("%+v", *r) // missing numbers are NaN, which equals nothing
	}
	if first, second := made(), made(); first != second {
		t.Error("two reports differ")
	}
}

// TestRecoverable: a plan, a bound, and the exact program between them.
func TestRecoverable(t *testing.T) {
	app := func(primary int, mb ...float64) failover.Application {
		a := failover.Application{Name: string(rune('a' + primary)), Primary: primary, Rate: 1, Full: len(mb) - 1}
		for _, x := range mb {
			a.Variants = append(a.Variants, failover.Variant{Alternative: placement.Alternative{Name: "v", Quality: 1, Demand: []float64{x}}})
		}
		return a
	}
	problem := func(mb []float64, list ...failover.Application) *failover.Problem {
		p := &failover.Problem{Resources: []string{"memory"}, Applications: list}
		for i, x := range mb {
			p.Hosts, p.Capacity = append(p.Hosts, fleet.Host{Name: string(rune('A' + i))}), append(p.Capacity, []float64{x})
		}
		return p
	}
	for name, c := range map[string]struct {
		problem  *failover.Problem
		headroom float64
		want     verdict
	}{
		"it fits":                     {problem([]float64{100, 100}, app(0, 20, 80)), 0.2, yes},
		"the smallest does not":       {problem([]float64{100, 100}, app(0, 30, 80)), 0.2, no},
		"primaries take the room":     {problem([]float64{100, 100}, app(0, 20), app(1, 90)), 0.2, no},
		"enough, in pieces too small": {problem([]float64{100, 100, 100}, app(0, 30)), 0.2, no},
	} {
		if got := recoverable(c.problem, c.headroom, []env.HostLoss{{Host: 0}}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestSitesInTurn: so many whole sites, another first one each time.
func TestSitesInTurn(t *testing.T) {
	x := &failover.Problem{Hosts: []fleet.Host{{Site: "a"}, {Site: "b"}, {Site: "c"}, {Site: "a"}, {Site: "b"}, {Site: "c"}}}
	for k, want := range [][]int{{0, 1, 3, 4}, {1, 2, 4, 5}, {0, 2, 3, 5}} {
		if got := ofSites(x, 2, k); !reflect.DeepEqual(got, want) {
			t.Errorf("from site %d: servers %v, want %v", k, got, want)
		}
	}
}
