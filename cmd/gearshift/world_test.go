package main

import (
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/workloads"
)

// The built-in scenarios keep the environment's contract under every workload
// that they are judged by, with the simulator's invariants checked at each event.
func TestBuiltInScenariosKeepTheContract(t *testing.T) {
	for _, name := range workloads.ScenarioNames() {
		for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
			s, err := scenario.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			config, err := simulation(s)
			if err != nil {
				t.Fatal(err)
			}
			maker, err := ruleMaker(s, config.Table)
			if err != nil {
				t.Fatal(err)
			}
			if config.Encoder, err = maker.Encoder(s.Spec()); err != nil {
				t.Fatal(err)
			}
			config.Check, config.Engine.Scheduler = true, scheduler
			list, err := evaluated(s, []string{"u1", "u2", "stable:2"}, 150)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range list {
				config.Open, config.KnownRate = w.Open, w.KnownRate
				e, err := env.New(config)
				if err != nil {
					t.Fatal(err)
				}
				if err := env.CheckEnvironment(e, workloads.Seed(workloads.Validation, 1), 2000); err != nil {
					t.Errorf("%s, %s, %s: %v", name, scheduler, w.Name, err)
				}
			}
		}
	}
}
