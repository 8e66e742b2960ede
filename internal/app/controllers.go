package app

import (
	"cmp"
	"fmt"
	"log/slog"

	"gearshift/internal/etcd"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/config"
	"gearshift/serving/config/setting"
	"gearshift/serving/control"
	"gearshift/serving/control/failover"
	"gearshift/serving/control/rollout"
	"gearshift/serving/streams"
)

// stepsShown bounds the steps of the last failover on the page.
const stepsShown = 100

// withFailover shows the state of applications on the page among the modules.
func withFailover(modules []serving.Module, m *failover.Module) []serving.Module {
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok {
			page.Failover = func() any {
				s := m.Situation()
				if s.Last != nil && len(s.Last.Steps) > stepsShown {
					s.Last.Steps = s.Last.Steps[:stepsShown]
				}
				return s
			}
		}
	}
	return modules
}

// newFailover returns the module that replaces lost hosts; nil without a section failover in the scenario. The
// module holds the state file until it is closed.
func (o *Options) newFailover(s *scenario.Scenario, t *fleet.Table, files stateFiles, log *slog.Logger) (*failover.Module, error) {
	f := s.Failover()
	if f == nil {
		if o.FailoverState != "" {
			return nil, fmt.Errorf("--failover-state %s: %s has no section failover; want one, or no such flag", o.FailoverState, o.Scenario)
		}
		return nil, nil
	}
	if err := f.Folder(); err != nil {
		return nil, fmt.Errorf("%s: failover.models: %w", o.Scenario, err)
	}
	c := o.config(s)
	token := setting.Env(c.Admin.FleetTokenEnv)
	if c.Admin.Addr == config.AdminOff {
		log.Warn("the admin listener is off: no agent can report, and hosts are lost by refused connections and probes alone", "to_have_it", "serving.admin.addr")
	} else if c.Routers > 1 && !etcd.Is(o.State) {
		log.Warn("several routers share the fleet: only one of them may have the section failover, or each undoes what the others load", "routers", c.Routers)
	}
	m, err := failover.New(failover.Options{
		Problem: s.FailoverProblem(true), Controller: s.FailoverOptions(), Table: t,
		Token: token, States: files.of(o.FailoverState, o.State), Models: f.Models, Ping: f.Ping, Log: log,
	})
	if err == nil && token == "" {
		log.Warn("no fleet's token: agents of engines cannot report", "to_set_one", "export "+c.Admin.FleetTokenEnv+"=$(openssl rand -hex 32), for the router and for each engine with --agent")
	}
	return m, err
}

// newRollout returns the module that changes the versions of models, and gives the backends of those models names
// that may change; nil without a section rollout in the scenario. The module holds the state file until it is closed.
func (o *Options) newRollout(s *scenario.Scenario, l *fleet.Ledger, busy *signals.Busy, backends []serving.Backend, files stateFiles, log *slog.Logger) (*rollout.Module, error) {
	x := s.Rollout()
	if x == nil {
		if o.RolloutState != "" {
			return nil, fmt.Errorf("--rollout-state %s: %s has no section rollout; want one, or no such flag", o.RolloutState, o.Scenario)
		}
		return nil, nil
	}
	if c := o.config(s); c.Admin.Addr == config.AdminOff {
		log.Warn("the admin listener is off: versions cannot be ordered", "to_have_it", "serving.admin.addr")
	} else if c.Routers > 1 && !etcd.Is(o.State) {
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

// newRebalancing returns the controller that moves replicas between hosts; nil without rebalancing in the scenario.
func newRebalancing(s *scenario.Scenario, l *fleet.Ledger, b *signals.Busy, log *slog.Logger) (*control.Rebalancing, error) {
	settings, on := s.Rebalancing()
	if !on {
		return nil, nil
	}
	return control.NewRebalancing(control.RebalancingOptions{Ledger: l, Settings: settings, Busy: b, Log: log})
}

// clientsShown bounds the streaming clients on the page.
const clientsShown = 30

// withStreams shows streaming clients on the page among the modules.
func withStreams(modules []serving.Module, m *streams.Module) []serving.Module {
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok {
			page.Streams = func() any { return m.State(clientsShown) }
		}
	}
	return append(modules, m)
}

// serveStreams adds the module for streaming clients, if the scenario has them.
func (x *assembly) serveStreams(modules []serving.Module, l *fleet.Ledger) ([]serving.Module, error) {
	c, on := x.s.Streams()
	if !on {
		if x.o.HTTP3 != "" {
			return nil, fmt.Errorf("--http3 %s: %s has no streaming clients; want a section serving.streams, or no such flag", x.o.HTTP3, x.o.Scenario)
		}
		return modules, nil
	}
	c.HTTP3 = cmp.Or(x.o.HTTP3, c.HTTP3)
	x.streams = streams.New(streams.Options{Config: c, Ledger: l, Log: x.log})
	return withStreams(modules, x.streams), nil
}
