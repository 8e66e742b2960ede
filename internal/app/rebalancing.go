package app

import (
	"log/slog"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/control"
)

// newRebalancing makes what moves replicas between hosts; nil where the scenario does not ask for it.
func newRebalancing(s *scenario.Scenario, l *fleet.Ledger, b *signals.Busy, log *slog.Logger) (*control.Rebalancing, error) {
	settings, on := s.Rebalancing()
	if !on {
		return nil, nil
	}
	return control.NewRebalancing(control.RebalancingOptions{Ledger: l, Settings: settings, Busy: b, Log: log})
}
