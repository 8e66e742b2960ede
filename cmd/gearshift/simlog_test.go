package main

import (
	"os"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/serving/experience"
	"gearshift/workloads"
)

// mistaken is the fleet of the world in the simulator, of which policies believe what
// the scenario s says.
func mistaken(t *testing.T, world, s *scenario.Scenario) env.Config {
	t.Helper()
	fleet, err := world.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	fleet.Forecaster = profile.NewForecaster(s.Profiles())
	return fleet
}

// decides is the stored policy or rule as it decides for the scenario.
func decides(t *testing.T, s *scenario.Scenario, store, ref string) policy.Network {
	t.Helper()
	source, err := onnxruntime.Source(store, onnxruntime.Native)
	if err != nil {
		t.Fatal(err)
	}
	maker, err := s.Maker(s.Table())
	if err != nil {
		t.Fatal(err)
	}
	p, err := source.Network(maker, ref, s, new([]string))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// loggedRequests plays the policy on n requests of a workload in the simulated
// fleet, writes them to a log as a router of the scenario would, and returns the file.
func loggedRequests(t *testing.T, fleet env.Config, s *scenario.Scenario, policy policy.Network, workload string, n int) string {
	t.Helper()
	work, err := s.Evaluated([]string{workload}, n)
	if err != nil {
		t.Fatal(err)
	}
	fleet.Open = work[0].Open
	e, err := env.New(fleet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reset(workloads.Seed(workloads.Serving, 9)); err != nil {
		t.Fatal(err)
	}
	config := experience.DefaultConfig()
	config.Path, config.Buffer = t.TempDir()+"/experience.jsonl", n
	header := experience.NewHeader(s.ServingTable())
	header.Scenario, header.ScenarioHash = s.Name, s.Hash()
	out, err := experience.New(config, header, nil)
	if err == nil {
		err = out.Begin()
	}
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, policy.Scratch())
	var rows []*experience.Row
	for over := false; !over; {
		r := out.Row()
		r.Wall, r.Request, r.Policy, r.Propensity = time.Unix(int64(len(rows)), 0), *e.Request(), policy.Name(), 1
		r.Request.ID, r.Decision = uint64(len(rows)+1), uint64(len(rows)+1)
		r.View.CopyFrom(e.View())
		rows = append(rows, r)
		action := policy.Decide(e.View(), e.Request(), scratch)
		if p, ok := policy.(evaluation.Placer); ok {
			action = p.Place(e.View(), e.Request(), scratch)
		}
		route := e.Step
		if _, ok := policy.(evaluation.Placer); ok {
			route = e.Place
		}
		step, err := route(action)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range step.Info.Outcomes {
			r := rows[o.Decision]
			r.Variant, r.Replica, r.EndVariant, r.EndReplica = o.Variant, o.Replica, o.Variant, o.Replica
			r.Outcome, r.OutputTokens, r.Judged, r.Met, r.Utility = experience.Completed, o.OutputTokens, true, o.Met, o.Utility
			r.PerToken, r.Latency, r.FirstToken = o.Latency(), o.Finished-o.Request.Arrival, o.FirstToken-o.Request.Arrival
		}
		over = step.Terminated || step.Truncated
	}
	for _, r := range rows {
		out.Add(r)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return config.Path
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
