package scenario_test

import (
	"strings"
	"testing"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/envtest"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// observed returns the scenario's simulation, whose observations are those of its policies.
func observed(t *testing.T, s *scenario.Scenario) env.Config {
	t.Helper()
	config, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	maker, err := s.Maker(config.Table)
	if err != nil {
		t.Fatal(err)
	}
	if config.Encoder, err = maker.Encoder(s.Spec()); err != nil {
		t.Fatal(err)
	}
	return config
}

// The built-in scenarios keep the environment's contract under every workload
// that they are judged by, with the simulator's invariants checked at each event.
func TestBuiltInScenariosKeepTheContract(t *testing.T) {
	for _, name := range scenario.Fleets() {
		for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
			s := load(t, name)
			config := observed(t, s)
			config.Check, config.Engine.Scheduler = true, scheduler
			list, err := s.Evaluated([]string{"u1", "u2", "stable:2"}, 150)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range list {
				config.Open, config.KnownRate = w.Open, w.KnownRate
				e, err := env.New(config)
				if err != nil {
					t.Fatal(err)
				}
				if err := envtest.Check(e, workloads.Seed(workloads.Validation, 1), 2000); err != nil {
					t.Errorf("%s, %s, %s: %v", name, scheduler, w.Name, err)
				}
			}
		}
	}
}

// Requests have to fit every replica, as placed and alone on its host, where a static size
// has its whole memory (LBE-18).
func TestSmallestCache(t *testing.T) {
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	placed, s := load(t, "tiny"), parse(t, strings.Replace(string(text), "static_memory: 90%", "static_memory: 75%", 1))
	large, err := s.Alone("large")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Settings(1).Fits, large.KVTokens()[0]; got != want || want >= placed.Settings(1).Fits {
		t.Errorf("%d tokens fit, want the %d of the large size alone, with less than its share beside the small one", got, want)
	}
	if got, want := placed.Settings(1).Fits, placed.KVTokens()[1]; got != want {
		t.Errorf("%d tokens fit, want %d", got, want)
	}
}

// A host whose pace changes meets fewer deadlines, and its replicas are seen to be slow
// unless the scenario has forecasts keep to the profiles. What is held against
// measurements keeps to them, too.
func TestSlowdownReachesTheFleet(t *testing.T) {
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	name := "hosts:\n  - {name: gpu0, "
	slow := strings.Replace(string(text), name, name+"slowdown: {min: 1.2, max: 2, mean_s: 20}, ", 1)
	if slow == string(text) {
		t.Fatal("the scenario has no such host")
	}
	met := func(s *scenario.Scenario) float64 {
		return played(t, s, "static:large", 600, 1, "poisson:1")[0].DeadlineMet.Mean
	}
	s := parse(t, slow)
	if plain, slowed := met(load(t, "tiny")), met(s); slowed > plain-0.02 {
		t.Errorf("deadlines met: %.3f, and %.3f as declared", slowed, plain)
	}
	c, err := s.Simulation()
	if err != nil || c.Declared == nil {
		t.Errorf("views do not tell slow replicas: %v", err)
	}
	if got, want := c.Quickest()[0].Weights, 1.2*c.Profiles[0].Weights; got != want {
		t.Errorf("at its quickest the host reads weights in %v ms, want %v", got, want)
	}
	if list := s.Differences(load(t, "tiny")); len(list) > 0 {
		t.Errorf("a router would have to be restarted for %v", list)
	}
	if c.Steady(); c.Slowdowns != nil || c.Declared != nil {
		t.Error("a steady fleet has slowdowns")
	}
	if c, err := parse(t, slow+"\n  drift: {correct: false, doubt: false}\n").Simulation(); err != nil || c.Declared != nil || c.Slowdowns == nil {
		t.Errorf("forecasts do not keep to the profiles: %v", err)
	}
}
