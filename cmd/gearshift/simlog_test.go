//go:build !serveonly

package main

import (
	"os"
	"testing"

	"gearshift/env"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/internal/training"
	"gearshift/router/policy"
	"gearshift/router/profile"
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
	path, err := training.SimulateLog(t.Context(), t.TempDir(), fleet, s, policy, workload, n)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
