package scenario_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gearshift/internal/scenario"
)

// fleetOfAll is a scenario with failover, changes of version, and rebalancing: notes keep h1 busy, and may move.
func fleetOfAll(t *testing.T) *scenario.Scenario {
	t.Helper()
	text, err := os.ReadFile("testdata/controlled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// A host dies and comes back, a version is replaced, and a busy replica moves in one run, by the controllers that
// serve: what was lost is recovered and moves back, and every request is accounted for.
func TestControllersActInOneRun(t *testing.T) {
	const requests = 2000
	s := fleetOfAll(t)
	results := played(t, s, "threshold", requests, 2, "poisson:4", "poisson:4+lost:h1@60-120+version:small=2@200")
	calm, disturbed := results[0], results[1]
	for name, want := range map[string]float64{"failovers": 1, "applications lost": 1, "recovered": 1, "moved back": 1, "versions changed": 3, "false alarms": 0, "rolled back": 0, "moves failed": 0} {
		if got := disturbed.Served.Controllers[name]; got != want {
			t.Errorf("%s: %v a run, want %v", name, got, want)
		}
		if got := calm.Served.Controllers[name]; got != 0 {
			t.Errorf("%s: %v in a run in which nothing happens", name, got)
		}
	}
	for _, r := range results {
		if r.Requests != 2*requests || r.Served.Controllers["replicas moved"] < 1 || r.Served.Controllers["backups loaded"] < 1 {
			t.Errorf("%s: %d requests, and %v", r.Workload, r.Requests, r.Served.Acted())
		}
	}
	if lost := calm.DeadlineMet.Mean - disturbed.DeadlineMet.Mean; lost < 0 || lost > 0.01 {
		t.Errorf("in time %.4f, and %.4f with a host lost; want at most .01 less", calm.DeadlineMet.Mean, disturbed.DeadlineMet.Mean)
	}
	again := played(t, s, "threshold", requests, 2, "poisson:4", "poisson:4+lost:h1@60-120+version:small=2@200")
	for i := range again {
		again[i].SimRequestsPerS = results[i].SimRequestsPerS
	}
	if !reflect.DeepEqual(again, results) {
		t.Error("the same seeds come to something else a second time")
	}
}

// Without a backup and without room for one, an application stays unanswered while its host is lost.
func TestNothingAnswersWithoutRoom(t *testing.T) {
	text, err := os.ReadFile("testdata/controlled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, strings.Replace(string(text), "headroom: 60%", "headroom: 10%", 1))
	r := played(t, s, "threshold", 2000, 1, "poisson:4+lost:h1@60-120")[0]
	if c := r.Served.Controllers; c["applications lost"] != 1 || c["recovered"] != 1 || r.Served.Refused["no_replica"] == 0 {
		t.Errorf("%v, refused %v; want one that recovers when its host is back, and refusals before", r.Served.Acted(), r.Served.Refused)
	}
}

// A variant alone has nothing else to load, so that no controller acts on it.
func TestAVariantAloneHasNoControllers(t *testing.T) {
	text, err := os.ReadFile("testdata/controlled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := parse(t, regexp.MustCompile(`(?m)^.*(notes|digits|modality).*\n`).ReplaceAllString(string(text), ""))
	alone, err := s.Alone("small")
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*scenario.Scenario{"alone": alone, "whole": s} {
		c, err := x.Simulation()
		if err != nil {
			t.Fatal(err)
		}
		if (c.Controllers != nil) != (name == "whole") {
			t.Errorf("%s: controllers %v", name, c.Controllers != nil)
		}
	}
}

// Versions are of models that the file changes.
func TestVersionsInWorkloads(t *testing.T) {
	s := fleetOfAll(t)
	for name, want := range map[string]string{
		"poisson:4+version:tiny=2@10":     `no model "tiny" changes its version`,
		"poisson:4+version:small=a b@10":  "version",
		"poisson:4+version:small@10":      "is not a model, its next version and a time",
		"poisson:4+version:digits=2@10":   `no model "digits" changes its version`,
		"poisson:4+version:small=2@never": "is not a model, its next version and a time",
	} {
		if _, err := s.Evaluated([]string{name}, 10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", name, err, want)
		}
	}
}
