// Package rebalancing runs the controller of load bands within the server: it measures what the
// replicas use of their hosts, and has those that are too much for one loaded on another before
// they are unloaded.
package rebalancing

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/bands"
	"gearshift/serving"
	"gearshift/serving/engines"
	"gearshift/serving/work"
)

// Options are what a Module is made of.
type Options struct {
	Table *fleet.Table
	// Settings are the controller's. Their resources are the module's own.
	Settings bands.Settings
	// Work is how long a request with so many tokens of prompt and answer keeps the replica's host
	// busy, alone.
	Work func(replica, prompt, tokens int) time.Duration
	Log  *slog.Logger
}

// Module is the rebalancing of a server. It implements [serving.Module], and joins one server.
type Module struct {
	options    Options
	controller *bands.Controller
	engines    *engines.Engines
	claims     *lifecycle.Claims
	clock      func() time.Duration
	log        *slog.Logger
	replicas   map[[2]int]int // by variant and host
	counts     []count        // by replica

	// What follows is the runner's: it is used while it is locked.
	measured time.Duration
	loaded   []time.Duration // by replica, when it was loaded last by a move
	use      [][]float64     // by replica, at the last measurement
}

// count is what a replica has done since the last measurement.
type count struct {
	work  atomic.Int64 // nanoseconds
	reads atomic.Int64 // of its weights, at most: requests in one batch share one
}

// worth is the least share of one host that a move must bring below bands and limits. What a
// replica uses differs by some percent from one period to the next, and is no reason to move it.
const worth = 0.04

// New makes a Module.
func New(o Options) (*Module, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Settings.Options.Resources = resources()
	o.Settings.Options.Gain = worth / float64(len(o.Table.Hosts))
	if err := o.Settings.Options.Validate(); err != nil {
		return nil, fmt.Errorf("cannot make rebalancing: %w", err)
	}
	m := &Module{options: o, log: o.Log, replicas: map[[2]int]int{}, counts: make([]count, len(o.Table.Replicas)), loaded: make([]time.Duration, len(o.Table.Replicas)), use: make([][]float64, len(o.Table.Replicas))}
	for i, r := range o.Table.Replicas {
		m.use[i] = make([]float64, len(resources()))
		at := [2]int{r.Variant, r.Host}
		if _, taken := m.replicas[at]; !taken { // a second one there stays where it is
			m.replicas[at] = i
		}
	}
	m.controller = bands.New(fleetOf{m}, o.Settings)
	return m, nil
}

// The resources of hosts, in the order of [resources].
const (
	busy = iota
	memory
	bandwidth
)

// resources are the time that hosts are busy, which is to be even, their memory, and its bandwidth.
func resources() []bands.Resource {
	list := bands.DefaultOptions().Resources
	list[busy].Name, list[busy].Limit = "busy", 1
	return list
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.engines, m.clock = s.Engines(), s.Clock()
	m.claims = m.engines.Claim(lifecycle.Balancing, m.ended)
	m.engines.Join(m)
	return serving.Parts{Observer: m, Metrics: m.metrics(), Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/rebalancing", Access: serving.AdminRead, About: "what replicas use of their hosts, and which are being moved", Handler: m.serveStatus},
	}}
}

// Curious implements [serving.Observer].
func (m *Module) Curious() bool { return false }

// Routed implements [serving.Observer].
func (m *Module) Routed(*serving.Account) {}

// Over implements [serving.Observer]: it counts the work of what was answered.
func (m *Module) Over(a *serving.Account) {
	if w := a.Work; w != nil && a.Result.Outcome == work.Completed {
		x := &m.counts[w.Replica]
		x.work.Add(int64(m.options.Work(w.Replica, w.Request.PromptTokens, a.Result.Tokens)))
		x.reads.Add(int64(max(1, a.Result.Tokens)))
	}
}

// Observe implements [control.Controller]. The ends of what the controller wants come by its claims.
func (m *Module) Observe(control.Event) {}

// ended follows the end of a load or an unload.
func (m *Module) ended(e control.Event) {
	switch name := m.options.Table.Replicas[e.Replica].Name; e.Kind {
	case control.Loaded:
		m.loaded[e.Replica] = e.At
	case control.ActionFailed, control.Evicted:
		m.log.Warn("a replica was not moved", "replica", name, "error", e.Reason)
	}
	m.controller.Observe(e)
}

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	next := m.controller.Wake(now)
	if fault := m.controller.Status().Fault; fault != nil {
		m.log.Warn("cannot rebalance", "error", fault)
	}
	return next
}
