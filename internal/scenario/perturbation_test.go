package scenario_test

import (
	"strings"
	"testing"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// played is what a rule comes to on the whole fleet, on workloads of so many requests.
func played(t *testing.T, s *scenario.Scenario, rule string, requests, seeds int, names ...string) []evaluation.Result {
	t.Helper()
	list, err := s.Evaluated(names, requests)
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	fleet.Check = true
	maker, err := s.Maker(fleet.Table)
	if err != nil {
		t.Fatal(err)
	}
	decider, err := maker.Parse(rule)
	if err != nil {
		t.Fatal(err)
	}
	plan := evaluation.Plan{
		Contestants: []evaluation.Contestant{{Name: rule, Decider: decider, Fleet: fleet}},
		Workloads:   list, Seeds: workloads.Seeds(workloads.Validation, seeds),
	}
	results, err := plan.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// A perturbation reaches the fleet that is simulated, and neither the contestant's
// own nor the workloads beside it: a host less or a slower GPU costs the large
// model deadlines, a faster one gains some, and the plain workload is what it is
// when it stands alone.
func TestPerturbationsReachTheFleet(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	met := func(names ...string) (all []float64) {
		for _, r := range played(t, s, "static:opt-6.7b", 600, 1, names...) {
			all = append(all, r.DeadlineMet.Mean)
		}
		return all
	}
	alone := met("poisson:1.5")[0]
	all := met("poisson:1.5+lost:gpu0@20-", "poisson:1.5+gpu:x1.1", "poisson:1.5+gpu:x0.75", "poisson:1.5")
	if lost, slow, quick := all[0], all[1], all[2]; !(lost < alone-0.03 && slow < alone-0.1 && quick > alone+0.03) {
		t.Errorf("deadlines met: %.3f with a host lost, %.3f slower, %.3f quicker, %.3f as declared", lost, slow, quick, alone)
	}
	if all[3] != alone {
		t.Errorf("deadlines met: %v with perturbations, %v alone", all[3], alone)
	}
}

// Where GPUs are slower than declared, rules reckon with what streams show of it, as in
// a router, unless the scenario has them keep to the profiles.
func TestSlowGPUsAreNoticed(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	utility := func(correct bool) float64 {
		s.Serving.Server.Drift.Correct = correct
		return played(t, s, "slackfit", 2000, 2, "u1+gpu:x1.25")[0].Utility.Mean
	}
	if with, without := utility(true), utility(false); with < without+0.05 {
		t.Errorf("utility %.3f where it is noticed, %.3f where not", with, without)
	}
}

// The rule that decides while forecasts are in doubt loses little by engines that are slower than forecast.
func TestTheCautiousRuleBearsSlowGPUs(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	s.Serving.Server.Drift.Correct = false
	utility := func(rule string) float64 { return played(t, s, rule, 2000, 2, "u1+gpu:x1.25")[0].Utility.Mean }
	if cautious, untuned := utility(policy.Cautious), utility(policy.Untuned); cautious < 0.86 || cautious < untuned+0.05 {
		t.Errorf("utility %.3f, by the rule without caution %.3f", cautious, untuned)
	}
}

func TestPerturbationsThatCannotBe(t *testing.T) {
	s := load(t, "tiny")
	if _, err := s.Evaluated([]string{"u1+lost:gpu1@5-"}, 10); err == nil ||
		err.Error() != `cannot play workload "u1+lost:gpu1@5-": no host "gpu1"; there are gpu0` {
		t.Errorf("unknown host: %v", err)
	}
	list, err := s.Evaluated([]string{"u1+lost:gpu0@5-"}, 10)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	config.Open = list[0].Open
	if err := list[0].Perturb(&config); err != nil {
		t.Fatal(err)
	}
	if _, err := env.New(config); err == nil || !strings.Contains(err.Error(), "no replica is left") {
		t.Errorf("the only host is lost: %v", err)
	}
}
