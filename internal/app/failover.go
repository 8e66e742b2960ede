package app

import (
	"fmt"
	"log/slog"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/config"
	"gearshift/serving/config/setting"
	"gearshift/serving/control/failover"
)

// stepsShown bounds the steps of the last failover that the page shows.
const stepsShown = 100

// withFailover has the page among the modules show how applications stand.
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

// newFailover makes what replaces hosts that are lost; nil where the scenario has no section
// failover. It holds the state file until it is closed.
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
	} else if c.Routers > 1 {
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
