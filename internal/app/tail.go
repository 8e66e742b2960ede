package app

import (
	"log/slog"

	"gearshift/internal/scenario"
	"gearshift/internal/scenario/placing"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/control"
	"gearshift/serving/control/rollout"
)

// withTail adds what shows how busy the busiest hosts are, on the page too, with the replicas that
// are moved and the versions that change, if any do.
func withTail(modules []serving.Module, s *scenario.Scenario, t *fleet.Table, b *signals.Busy, moves *control.Rebalancing, versions *rollout.Module, counts *control.Scaling, placed *control.Placement) ([]serving.Module, error) {
	o := control.TailOptions{Table: t, Target: scenario.Of[scenario.Tail](s).Target.Share(), Busy: b}
	if moves != nil {
		o.Moves = func() any { return moves.Situation().Moves }
	}
	if versions != nil {
		o.Versions = func() any { return versions.Versions() }
	}
	if counts != nil {
		o.Counts = func() any { return counts.Situation() }
	}
	if placed != nil {
		o.Placement = func() any { return placed.Situation() }
	}
	m, err := control.NewTail(o)
	if err != nil {
		return nil, err
	}
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok {
			page.Tail = func() any { return m.Situation() }
		}
	}
	return append(modules, m), nil
}

// newScaling makes what counts replicas; nil where the scenario does not ask for it.
func (o *Options) newScaling(s *scenario.Scenario, l *fleet.Ledger, b *signals.Busy, files stateFiles, log *slog.Logger) (*control.Scaling, error) {
	list, period := s.Counts(l.Table())
	if period == 0 {
		return nil, nil
	}
	return control.NewScaling(control.ScalingOptions{Ledger: l, Busy: b, Counted: list, Period: period, States: files.of(o.State), Log: log})
}

// newPlacement makes what decides the layouts of hosts; nil where the scenario does not ask for it.
func newPlacement(s *scenario.Scenario, l *fleet.Ledger, b *signals.Busy, log *slog.Logger) (*control.Placement, error) {
	o, on := s.Placing(l.Table())
	if !on {
		return nil, nil
	}
	rule := scenario.Of[placing.Section](s).Rule
	return control.NewPlacement(control.PlacementOptions{Ledger: l, Busy: b, Layouts: o, Rule: rule, AtOnce: s.Serving.Backend == scenario.Simulated, Log: log})
}

// withTiers adds what corrects the shares of tiers, if the scenario has any.
func withTiers(modules []serving.Module, s *scenario.Scenario, r *Reloader, b *signals.Busy) ([]serving.Module, error) {
	if r.tiers == nil {
		return modules, nil
	}
	list, members, o := s.ServingTiers(r.core.Table())
	m, err := control.NewTiers(control.TiersOptions{Busy: b, Tiers: list, Members: members, Controller: o, Balancer: r.tiers})
	if err != nil {
		return nil, err
	}
	return append(modules, m), nil
}
