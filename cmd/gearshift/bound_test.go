package main

import (
	"encoding/json"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"gearshift/cmd/gearshift/evalcmd"
)

// boundOf runs bound and leaves out what differs from run to run.
func boundOf(t *testing.T, cores int) evalcmd.BoundReport {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	out := succeed(t, "bound", "--scenario", "tiny", "--policy", "threshold:3", "--policy", "static:large",
		"--workload", "poisson:6", "--workload", "gamma:6,2", "--requests", "60", "--seeds", "2",
		"--passes", "2", "--format", "json")
	var r evalcmd.BoundReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	for i := range r.Rows {
		if r.Rows[i].MSPerDecision <= 0 {
			t.Errorf("%s took no time", r.Rows[i].Policy)
		}
		r.Rows[i].MSPerDecision, r.Rows[i].SimRequestsPerS = 0, 0
	}
	return r
}

// Each policy stands next to its clairvoyant, which does better, and to the fluid
// bound of the workloads whose rates are known; on one core as on two.
func TestBound(t *testing.T) {
	r := boundOf(t, 2)
	if again := boundOf(t, 1); !reflect.DeepEqual(r, again) {
		t.Errorf("on two cores %+v\non one %+v", r, again)
	}
	if len(r.Rows) != 2*2*2 || r.Seeds != 2 || r.Scenario != "tiny" {
		t.Fatalf("%d rows of %d seeds of %s", len(r.Rows), r.Seeds, r.Scenario)
	}
	base := map[string]float64{}
	for _, x := range r.Rows {
		at := x.Base + " on " + x.Workload
		switch {
		case x.Policy == x.Base:
			base[at] = x.Utility.Mean
		case strings.HasPrefix(x.Policy, "clairvoyant:") && x.Utility.Mean <= base[at]:
			t.Errorf("%s: the base earns %v, the clairvoyant %v", at, base[at], x.Utility.Mean)
		}
		if x.Requests != 120 {
			t.Errorf("%s: %d requests", x.Policy, x.Requests)
		}
	}
	if len(r.Fluid) != 2 || r.Fluid[0].Workload != "poisson:6" || r.Fluid[0].Utility < 0.8 || math.Abs(r.Fluid[0].Utility-r.Fluid[1].Utility) > 1e-9 {
		t.Errorf("fluid bounds %+v", r.Fluid)
	}
	if len(base) != 4 {
		t.Errorf("bases %v", base)
	}
}

// The fluid bound is of the scenario as declared: where a workload departs from it
// there is none.
func TestNoFluidBoundOfPerturbations(t *testing.T) {
	out := succeed(t, "bound", "--scenario", "tiny", "--policy", "threshold:3", "--requests", "40", "--seeds", "1", "--horizon", "0s", "--format", "json",
		"--workload", "poisson:6", "--workload", "poisson:6+outputs:x0.5", "--workload", "poisson:6+gpu:x0.5", "--workload", "stable:6+gpu:x2")
	var r evalcmd.BoundReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Rows) != 2*4 || len(r.Fluid) != 1 || r.Fluid[0].Workload != "poisson:6" {
		t.Errorf("%v: %s", err, out)
	}
	fail(t, []string{"bound", "--scenario", "tiny", "--fluid", "--policy", "slackfit"}, "--policy has no meaning with --fluid")
	fail(t, []string{"bound", "--scenario", "tiny", "--fluid", "--workload", "stable+outputs:x0.5"}, "no bound on stable+outputs:x0.5", "neither +outputs nor")
}

func TestBoundOfASweep(t *testing.T) {
	out := succeed(t, "bound", "--scenario", "tiny", "--fluid", "--workload", "stable", "--seeds", "1")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "stable ") || len(lines) < 5 {
		t.Errorf("the sweep's mean does not end the table:\n%s", out)
	}
}

// Clairvoyants stand among other policies in an evaluation.
func TestEvalOfClairvoyants(t *testing.T) {
	out := succeed(t, "eval", "--scenario", "tiny", "--policy", "threshold:8", "--policy", "clairvoyant:threshold:8@5s",
		"--workload", "poisson:4", "--requests", "40", "--seeds", "1", "--format", "csv")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 || !strings.Contains(lines[2], "clairvoyant:threshold:8@5s,") {
		t.Errorf("eval prints\n%s", out)
	}
	fail(t, []string{"eval", "--scenario", "tiny", "--policy", "clairvoyant:"}, "clairvoyant:", "REF")
}

func TestBoundRefuses(t *testing.T) {
	for flag, value := range map[string]string{
		"--seeds": "0", "--requests": "0", "--passes": "0", "--format": "csv",
	} {
		fail(t, []string{"bound", "--scenario", "tiny", flag, value}, flag)
	}
	fail(t, []string{"bound", "--scenario", "tiny", "--horizon", "-1s"}, "horizon")
	fail(t, []string{"bound", "--scenario", "tiny", "--policy", "clairvoyant:threshold"}, "clairvoyant")
}
