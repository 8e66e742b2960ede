package control

import (
	"log/slog"
	"net/http"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/placement/bands"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/work"
)

// RebalancingOptions are what a [Rebalancing] is made of.
type RebalancingOptions struct {
	Ledger *fleet.Ledger
	// Settings are the controller's. Their resources are its own.
	Settings bands.Settings
	// Busy measures what replicas use of their hosts.
	Busy *signals.Busy
	Log  *slog.Logger
}

// Rebalancing moves replicas between the hosts of a server: it measures what they use of their
// hosts, and has those that are too much for one loaded on another before they are unloaded. It
// implements [serving.Module], and joins one server.
type Rebalancing struct {
	ordered
	controller *bands.Replicas
}

// NewRebalancing makes the module.
func NewRebalancing(o RebalancingOptions) (m *Rebalancing, err error) {
	m = &Rebalancing{ordered: newOrdered(o.Ledger, o.Log, "rebalancing", "a replica was not moved")}
	m.controller, err = bands.NewReplicas(o.Settings, o.Ledger, o.Busy, m)
	return m, err
}

// Join implements [serving.Module].
func (m *Rebalancing) Join(s *serving.Server) serving.Parts {
	m.engines = s.Engines()
	m.controller.Claim(m.engines.Claim)
	m.engines.Join(m)
	return serving.Parts{Observer: m, Metrics: m.metrics(), Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/rebalancing", Access: serving.AdminRead, About: "what replicas use of their hosts, and which are being moved", Handler: m.serveStatus},
	}}
}

// Curious implements [serving.Observer].
func (m *Rebalancing) Curious() bool { return false }

// Routed implements [serving.Observer].
func (m *Rebalancing) Routed(*serving.Account) {}

// Over implements [serving.Observer]: an answered request has used its replica's host.
func (m *Rebalancing) Over(a *serving.Account) {
	if w := a.Work; w != nil && a.Result.Outcome == work.Completed {
		m.controller.Answered(w.Replica, a.Result.Tokens)
	}
}

// Observe implements [control.Controller]. The ends of moves come by the claims.
func (m *Rebalancing) Observe(control.Event) {}

// Wake implements [control.Controller].
func (m *Rebalancing) Wake(now time.Duration) time.Duration {
	next := m.controller.Wake(now)
	if fault := m.controller.Status().Fault; fault != nil {
		m.log.Warn("cannot rebalance", "error", fault)
	}
	return next
}
