package app

import (
	"log/slog"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving/control/rebalancing"
)

// newRebalancing makes what moves replicas between hosts; nil where the scenario does not ask for it.
func newRebalancing(s *scenario.Scenario, l *fleet.Ledger, log *slog.Logger) (*rebalancing.Module, error) {
	settings, on := s.Rebalancing()
	if !on {
		return nil, nil
	}
	return rebalancing.New(rebalancing.Options{Ledger: l, Settings: settings, Log: log, Work: workOf(s.Profiles())})
}

// workOf is how long a request takes on a replica alone, by the replicas' profiles.
func workOf(profiles []*profile.Profile) func(replica, prompt, tokens int) time.Duration {
	return func(replica, prompt, tokens int) time.Duration {
		p := profiles[replica]
		if p.Batches != nil {
			ms, _ := p.Batch(0, 1, 0)
			return time.Duration(ms * float64(time.Millisecond))
		}
		ms := p.Prefill(prompt, 0)
		if tokens > 1 {
			each, _ := p.Step(1, 1, prompt+tokens/2, 0)
			ms += float64(tokens-1) * each
		}
		return time.Duration(ms * float64(time.Millisecond))
	}
}
