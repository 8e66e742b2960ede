package scenario_test

import (
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
)

// together returns the scenario of the docs with two applications that failover keeps answered, and versions that change.
func together(t *testing.T) *scenario.Scenario {
	t.Helper()
	text := shifting(t, "  placement: {rule: worth}\n")
	for old, with := range map[string]string{
		"name: hellaswag, deadline_ms": "name: hellaswag, rate: 0.3, primary: gpu0, deadline_ms",
		"name: copa, deadline_ms":      "name: copa, rate: 0.3, primary: gpu1, deadline_ms",
		"engine:\n":                    "failover: {headroom: 6%}\nrollout: {at_once: 1, utilisation: 0.9, warmup: 5s}\nengine:\n",
	} {
		if !strings.Contains(text, old) {
			t.Fatalf("the scenario has no %q", old)
		}
		text = strings.Replace(text, old, with, 1)
	}
	return parse(t, text)
}

// While a new version of a size that is on hosts twice replaces the old one, and an application's host is lost and comes
// back, layouts change as well: nothing fails that the loss did not break, and once all is over layouts go on changing.
func TestLayoutsAmongFailuresAndVersions(t *testing.T) {
	s := together(t)
	config, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Evaluated([]string{"schedule:4x60,40x240,4x300,40x300,4x300,40x300+version:opt-1.3b=2@90+lost:gpu1@400-500"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if config.Check, config.Open = true, list[0].Open; list[0].Perturb(&config) != nil {
		t.Fatal("the workload does not fit")
	}
	e, err := env.New(config)
	if err != nil {
		t.Fatal(err)
	}
	maker, err := s.Maker(config.Table)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := maker.Parse("task-aware:0.98,0.08,1,0.5,0.15")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reset(7); err != nil {
		t.Fatal(err)
	}
	counts := func() map[string]int {
		m := map[string]int{}
		for _, c := range e.Counts() {
			m[c.Name] = c.N
		}
		return m
	}
	var before map[string]int // once versions have changed and the host is back
	const lostAt = 400 * time.Second
	ended, failed := 0, 0
	for over := false; !over; {
		step, err := evaluation.Route(e, rule, make([]float32, rule.Scratch()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range step.Info.Outcomes {
			o := &step.Info.Outcomes[i]
			broken := o.Failed && config.Table.Replicas[o.Replica].Host == 1 && o.Request.Arrival < lostAt // its client had a part of the answer
			if ended++; o.Failed && !broken {
				failed++
			}
		}
		if over = step.Terminated || step.Truncated; before == nil && e.Simulator().Now() > 900*time.Second {
			before = counts()
		}
	}
	after := counts()
	if failed > 0 || ended < 30_000 || e.Simulator().InFlight() != 0 {
		t.Errorf("%d of %d requests failed, and %d are under way", failed, ended, e.Simulator().InFlight())
	}
	if before["versions changed"] != 8 || before["rolled back"] != 0 || before["applications lost"] != 1 || before["recovered"] != 1 || after["changes failed"] != 0 {
		t.Errorf("%v; want the version at all 8 places, an application recovered, and no change of a layout that failed", before)
	}
	if before["layouts changed"] < 2 || after["layouts changed"] < before["layouts changed"]+4 {
		t.Errorf("layouts changed %d times by the time that all was over, and %d times by the end", before["layouts changed"], after["layouts changed"])
	}
}
