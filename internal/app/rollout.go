package app

import (
	"cmp"
	"fmt"
	"log/slog"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control/rollout"
)

// newRollout makes what changes versions of models, and gives the backends of those that change
// names that may; nil where the scenario has no section rollout. It holds the state file until it is
// closed.
func (o *Options) newRollout(s *scenario.Scenario, l *fleet.Ledger, busy *signals.Busy, backends []serving.Backend, files stateFiles, log *slog.Logger) (*rollout.Module, error) {
	x := s.Rollout()
	if x == nil {
		if o.RolloutState != "" {
			return nil, fmt.Errorf("--rollout-state %s: %s has no section rollout; want one, or no such flag", o.RolloutState, o.Scenario)
		}
		return nil, nil
	}
	if c := o.config(s); c.Admin.Addr == config.AdminOff {
		log.Warn("the admin listener is off: nobody can order a version", "to_have_it", "serving.admin.addr")
	} else if c.Routers > 1 {
		log.Warn("several routers share the fleet: only one of them may have the section rollout, or each undoes what the others load", "routers", c.Routers)
	}
	models, named := s.Versioned()
	t := l.Table()
	names := make([]*config.Name, len(backends))
	for i := range backends {
		if named[i] {
			names[i] = new(config.Name)
			names[i].Set(cmp.Or(backends[i].Model, t.Variants[t.Replicas[i].Variant].Name))
			backends[i].Versioned = names[i]
		}
	}
	return rollout.New(rollout.Options{
		Models: models, Controller: s.RolloutOptions(), Ledger: l, Names: names, Pattern: x.Pattern, Busy: busy,
		States: files.of(o.RolloutState, o.State), Log: log,
	})
}
