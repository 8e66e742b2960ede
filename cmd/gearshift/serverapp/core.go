package serverapp

import (
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// NewCore is the router with the scenario's fallback and no policy yet.
func NewCore(s *scenario.Scenario, log *slog.Logger) (*router.Core, error) {
	return newCore(s, s.Serving.Fallback, log)
}

// newCore is NewCore with another fallback.
func newCore(s *scenario.Scenario, rule string, log *slog.Logger) (*router.Core, error) {
	table := s.ServingTable()
	rules, err := s.Maker(table)
	if err != nil {
		return nil, err
	}
	fallback, err := rules.Parse(rule)
	if err != nil {
		return nil, err
	}
	balancer, err := s.Balancer()
	if err != nil {
		return nil, err
	}
	ledger := fleet.NewLedger(table)
	ledger.ShareRate(s.Serving.Server.Routers)
	panics := rate.Sometimes{First: 3, Interval: 10 * time.Second}
	return router.New(router.Config{
		Ledger: ledger, Fallback: fallback, Balancer: balancer,
		Forecaster: s.Forecaster(),
		Gate:       s.Gate(),
		Seed:       workloads.Seed(workloads.Serving, 0),
		OnPanic: func(name string, value any) { // of each request, maybe
			panics.Do(func() { log.Error("a policy panicked", "policy", name, "panic", value) })
		},
	})
}

// NewDrift compares what is served with the scenario's profiles.
func NewDrift(s *scenario.Scenario, t *fleet.Table, log *slog.Logger) *drift.Monitor {
	return drift.New(drift.Config{
		Table: t, Profiles: s.Profiles(), Sequences: s.Engine.MaxSequences,
		Chunked: s.Engine.Scheduler == engine.ChunkedPrefill, Log: log,
	})
}
