package app

import (
	"log/slog"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/scenario/placing"
	"gearshift/internal/training/policies"
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

// newPlacement makes what decides the layouts of hosts, a stored policy or a rule; nil where the scenario does not ask for it.
func (x *assembly) newPlacement(l *fleet.Ledger, b *signals.Busy) (*control.Placement, error) {
	s, log := x.s, x.log
	if !s.Places() {
		return nil, nil
	}
	s, rule := placeByStored(s, x.o.Store, log)
	o, on := s.Placing(l.Table())
	if !on {
		return nil, nil
	}
	if err := s.Unchanging(); err != nil {
		log.Warn("layouts stay as they are", "key", "serving.placement", "why", err)
	}
	return control.NewPlacement(control.PlacementOptions{Ledger: l, Busy: b, Layouts: o, Rule: rule, AtOnce: s.Serving.Backend == scenario.Simulated, Log: log})
}

// placeByStored returns the scenario with the stored policy that its serving.placement names deciding about layouts, and
// the name of what decides. Where the policy cannot be used, the rule decides.
func placeByStored(s *scenario.Scenario, store string, log *slog.Logger) (*scenario.Scenario, string) {
	section := scenario.Of[placing.Section](s)
	rule := section.Fallback()
	ref := s.PlacementPolicy()
	if ref == "" {
		return s, rule
	}
	choose, entry, err := (&policies.Source{Store: &checkpoints.Store{Path: store}}).Placement(ref)
	if err != nil {
		log.Warn("the rule decides which sizes are loaded, as the policy cannot", "policy", ref, "rule", rule, "error", err)
		return s, rule
	}
	placed := *s
	placed.Chooser = choose
	log.Info("a stored policy decides which sizes are loaded", "policy", entry.Ref().String(), "trained_on", entry.Meta.Scenario)
	return &placed, "policy " + entry.Ref().String()
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
