// Package rebalancing runs the controller of load bands within the server: it measures what the
// replicas use of their hosts, and has those that are too much for one loaded on another before
// they are unloaded.
package rebalancing

import (
	"log/slog"
	"net/http"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/placement/bands"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/engines"
	"gearshift/serving/work"
)

// Options are what a Module is made of.
type Options struct {
	Ledger *fleet.Ledger
	// Settings are the controller's. Their resources are its own.
	Settings bands.Settings
	// Busy measures what replicas use of their hosts.
	Busy *signals.Busy
	Log  *slog.Logger
}

// Module moves replicas between the hosts of a server. It implements [serving.Module], and joins one
// server.
type Module struct {
	options    Options
	table      *fleet.Table
	controller *bands.Replicas
	engines    *engines.Engines
	log        *slog.Logger
}

// New makes a Module.
func New(o Options) (m *Module, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m = &Module{options: o, log: o.Log, table: o.Ledger.Table()}
	m.controller, err = bands.NewReplicas(o.Settings, o.Ledger, o.Busy, driven{m})
	return m, err
}

// driven is what the controller asks of engines. It implements [bands.Engines].
type driven struct{ *Module }

func (m driven) Driven(replica int) bool { return m.engines.Driven(replica) != "" }

func (m driven) Moved(a control.Action, err error) {
	name := m.table.Replicas[a.Replica].Name
	if err != nil {
		m.log.Warn("a replica was not moved", "replica", name, "verb", a.Verb.String(), "error", err)
		return
	}
	m.log.Info("rebalancing", "replica", name, "verb", a.Verb.String())
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.engines = s.Engines()
	m.controller.Claim(m.engines.Claim)
	m.engines.Join(m)
	return serving.Parts{Observer: m, Metrics: m.metrics(), Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/rebalancing", Access: serving.AdminRead, About: "what replicas use of their hosts, and which are being moved", Handler: m.serveStatus},
	}}
}

// Curious implements [serving.Observer].
func (m *Module) Curious() bool { return false }

// Routed implements [serving.Observer].
func (m *Module) Routed(*serving.Account) {}

// Over implements [serving.Observer]: an answered request has used its replica's host.
func (m *Module) Over(a *serving.Account) {
	if w := a.Work; w != nil && a.Result.Outcome == work.Completed {
		m.controller.Answered(w.Replica, a.Result.Tokens)
	}
}

// Observe implements [control.Controller]. The ends of moves come by the claims.
func (m *Module) Observe(control.Event) {}

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	next := m.controller.Wake(now)
	if fault := m.controller.Status().Fault; fault != nil {
		m.log.Warn("cannot rebalance", "error", fault)
	}
	return next
}
