package app

import (
	"log/slog"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/control/rebalancing"
)

// newRebalancing makes what moves replicas between hosts; nil where the scenario does not ask for it.
func newRebalancing(s *scenario.Scenario, l *fleet.Ledger, b *signals.Busy, log *slog.Logger) (*rebalancing.Module, error) {
	settings, on := s.Rebalancing()
	if !on {
		return nil, nil
	}
	return rebalancing.New(rebalancing.Options{Ledger: l, Settings: settings, Busy: b, Log: log})
}
