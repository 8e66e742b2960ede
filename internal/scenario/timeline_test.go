package scenario_test

import (
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/workloads"
)

// Loads, drains and the like reach the fleet that is simulated, whatever policy plays on it: a
// replica less costs the large model deadlines, and a replica that comes brings some.
func TestTimelinesReachTheFleet(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	met := func(names ...string) (all []float64) {
		for _, r := range played(t, s, "static:opt-6.7b", 600, 1, names...) {
			all = append(all, r.DeadlineMet.Mean)
		}
		return all
	}
	all := met("poisson:1.5", "poisson:1.5+unload:opt-6.7b@gpu0@20", "poisson:1.5+drain:opt-6.7b@gpu0@20+drain:opt-6.7b@gpu1@20",
		"poisson:1.5+sleep:opt-6.7b@gpu0@20+wake:opt-6.7b@gpu0@30", "poisson:1.5+load:opt-6.7b@gpu3@200")
	if whole := all[0]; !(all[1] < whole-0.03 && all[2] < whole-0.03 && all[2] < all[1] && all[3] > all[1] && all[4] < whole-0.03) {
		t.Errorf("deadlines met: %.3f; without a replica %.3f, without two %.3f, with one that sleeps for a while %.3f, with one that is loaded late %.3f", whole, all[1], all[2], all[3], all[4])
	}
	if a, b := met("poisson:1.5+undrain:opt-6.7b@gpu0@100"), met("poisson:1.5+load:opt-6.7b@gpu0@86.7"); !(a[0] < all[0] && b[0] < all[0]) {
		t.Errorf("a replica that is drained at the start: %.3f, one that is cold: %.3f, whole %.3f", a[0], b[0], all[0])
	}
}

// What a loss costs is more where it takes evidence to know of it: requests go there until
// one breaks.
func TestEvidenceOfALossTakesItsTime(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	s.Serving.Server.Health.Failures, s.Serving.Server.Health.FailureShare = 0, 0
	all := played(t, s, "static:opt-1.3b", 2000, 2, "poisson:20+lost:gpu0@20-40", "poisson:20+lost:gpu0@20-40+evidence", "poisson:20", "poisson:20+evidence")
	utility := func(i int) float64 { return all[i].Utility.Mean }
	if !(utility(1) < utility(0) && utility(0) < utility(2)) {
		t.Errorf("utility %.4f with a loss by evidence, %.4f known at once, %.4f without", utility(1), utility(0), utility(2))
	}
	if utility(2) != utility(3) {
		t.Errorf("utility %v with nothing to find, %v without looking", utility(3), utility(2))
	}
}

// Timelines that cannot be are refused before anything is played, in one line.
func TestTimelinesThatCannotBe(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	for name, want := range map[string]string{
		"u1+load:opt-6.7b@gpu9@60":                            `+load:opt-6.7b@gpu9@60: no replica "opt-6.7b@gpu9"; want VARIANT@HOST, such as opt-125m@gpu0`,
		"u1+load:opt-6.7b@gpu0@60+load:opt-6.7b@gpu0@70":      "+load:opt-6.7b@gpu0@70: opt-6.7b@gpu0 is up by then; want it cold",
		"u1+unload:opt-6.7b@gpu0@60+wake:opt-6.7b@gpu0@70":    "opt-6.7b@gpu0 is cold by then; want it warm",
		"u1+drain:opt-6.7b@gpu0@60+drain:opt-6.7b@gpu0@70":    "opt-6.7b@gpu0 is draining by then; want it up",
		"u1+sleep:opt-6.7b@gpu0@60+undrain:opt-6.7b@gpu0@70":  "opt-6.7b@gpu0 is warm by then; want it draining",
		"u1+lost:gpu0@1-2+lost:gpu7@3-":                       `no host "gpu7"; there are gpu0, gpu1, gpu2, gpu3`,
		"u1+unload:opt-6.7b@gpu0@60+unload:opt-6.7b@gpu0@999": "opt-6.7b@gpu0 is cold by then; want it up",
	} {
		_, err := s.Evaluated([]string{name}, 100)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A step that comes while another is under way ends the run with a line on it.
func TestAStepThatComesTooEarly(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	work, err := s.Evaluated([]string{"poisson:5+load:opt-6.7b@gpu0@10+unload:opt-6.7b@gpu0@11"}, 200)
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	maker, err := s.Maker(fleet.Table)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := maker.Parse("threshold")
	if err != nil {
		t.Fatal(err)
	}
	plan := evaluation.Plan{
		Contestants: []evaluation.Contestant{{Name: "threshold", Decider: rule, Fleet: fleet}},
		Workloads:   work, Seeds: workloads.Seeds(workloads.Validation, 1),
	}
	if _, err := plan.Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot unload at 11s: opt-6.7b@gpu0 is being loaded already") {
		t.Errorf("error %v", err)
	}
}
