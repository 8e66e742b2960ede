// Package failover runs a failover controller within the server: it hears the agents of engines,
// carries out what the controller decides through the lifecycles of replicas, reports each step to
// subscribers, and keeps the controller's state in a file.
package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/serving"
	"gearshift/serving/control/states"
	"gearshift/serving/engines"
)

// Options are what a Module is made of.
type Options struct {
	// Problem is what is kept answered: its hosts are those of the table, and its variants those of
	// replicas there.
	Problem *failover.Problem
	// Controller sets how. Its term and its reports are the module's.
	Controller failover.Options
	Table      *fleet.Table
	// States is where the controller's state survives the router; nil is nowhere.
	States states.Store
	// Token is the fleet's, which orders to engines with an agent carry.
	Token string
	// Models is the folder of files that agents may fetch; empty: none.
	Models string
	// Dial connects to engines, to see whether they are there; nil is by TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	// Ping sets how often a stream of events without any sends something, unless its client asks for
	// another interval; zero is [pulse].
	Ping time.Duration
	Log  *slog.Logger
}

// Module is the failover of a server. It implements [serving.Module], and joins one server.
type Module struct {
	options     Options
	problem     *failover.Problem
	controller  *failover.Replicas
	store       *states.Saver[savedState] // nil without one
	term        atomic.Uint64
	shared      bool // routers share the state, and one of them acts
	claim       func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims
	release     func() // of the claims
	server      *serving.Server
	engines     *engines.Engines
	clock       func() time.Duration
	epoch       time.Time // when the clock was zero
	log         *slog.Logger
	metrics     *metrics
	hub         *hub
	models      models
	agents      registry
	subscribers atomic.Int64
	asks        sync.WaitGroup // questions to engines

	// What follows is the runner's: it is used while it is locked.
	resumed  State         // of an earlier run
	began    time.Duration // of the last failover
	failover int           // its number
	evidence evidence
	acted    bool // it acts by the last turn
}

// New makes a Module, and holds the state file until [Module.Close].
func New(o Options) (*Module, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Dial == nil {
		o.Dial = dial
	}
	o.Ping = cmp.Or(o.Ping, pulse)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Controller = filled(o.Controller)
	m := &Module{options: o, problem: o.Problem, log: o.Log, models: models{dir: o.Models}}
	m.term.Store(states.FirstTerm(o.Now()))
	m.metrics = newMetrics(m)
	store, last, err := states.Open[savedState](o.States, states.Failover, o.Now())
	if err != nil {
		return nil, err
	}
	if m.store = store; store != nil {
		m.term.Store(store.Term())
		_, m.shared = store.State.(states.Shared)
	}
	m.hub = newHub(m.term.Load())
	if err := m.newController(last); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// filled has the defaults for zeros of what the module needs itself.
func filled(o failover.Options) failover.Options {
	usual := failover.DefaultOptions()
	o.Heartbeat, o.Misses, o.ReturnAfter = cmp.Or(o.Heartbeat, usual.Heartbeat), cmp.Or(o.Misses, usual.Misses), cmp.Or(o.ReturnAfter, usual.ReturnAfter)
	return o
}

// newController makes the controller, which goes on from the state that an earlier one has left.
func (m *Module) newController(last *savedState) (err error) {
	c := m.options.Controller
	c.Term, c.Report = m.term.Load(), m.report
	if m.controller, err = failover.NewReplicas(m.problem, c, m.options.Table, hosts{m}); err != nil {
		return err
	}
	if m.store != nil {
		m.controller.SaveFirst()
	}
	if last == nil {
		return nil
	}
	state := &m.resumed
	*state = last.State
	if state.Zero == 0 { // when its steps were is not known
		state.Steps = nil
	}
	if err := m.controller.Resume(state.State); err != nil {
		return fmt.Errorf("cannot go on from the failover state file %s: %w", m.store.Path(), err)
	}
	return nil
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.server, m.engines, m.clock = s, s.Engines(), s.Clock()
	m.epoch = m.options.Now().Add(-m.clock())
	m.evidence = newEvidence(m.options.Table, m.engines.Addresses())
	m.agents = newRegistry(m)
	m.engines.SetStamp(m.agents.stamp)
	m.engines.OnEnded(m.agents.ended)
	m.claim, m.release = m.engines.Claims()
	m.controller.Claim(m.claim, m.resume)
	m.engines.SetSleeps(m.resumed.Sleeps)
	m.engines.Join(m)
	m.rebase()
	m.store.Follow(m.turn)
	m.store.Begin(m.log, m.written)
	m.tellStart()
	return serving.Parts{Routes: m.routes(), Metrics: m.metrics.collectors()}
}

// resume restores a replica that an earlier run has left up.
func (m *Module) resume(replica int) { m.engines.Found(replica, fleet.Up, 0) }

// turn restarts the controller from another router's state in a new term, or stops it. Hosts that it had given up
// are then judged by this router's evidence alone.
func (m *Module) turn(t states.Turn, last *savedState) (err error) {
	m.engines.Do(func() {
		for host := range m.options.Table.Hosts {
			if m.acted && m.controller.Out(host) { // once: after that, its health checks decide
				m.engines.Return(host)
			}
		}
		m.acted = t.Acts
		if m.release(); !t.Acts {
			return
		}
		m.term.Store(t.Term)
		m.agents.forget()
		m.hub.begin(t.Term)
		if m.resumed = (State{}); err == nil {
			err = m.newController(last)
		}
		if err != nil {
			return
		}
		m.engines.SetSleeps(m.resumed.Sleeps)
		m.controller.Claim(m.claim, m.resume)
		m.rebase()
	})
	return err
}

// rebase moves the times of an earlier run to this one's clock.
func (m *Module) rebase() {
	if m.resumed.Zero == 0 {
		return
	}
	m.controller.Rebase(time.Unix(0, m.resumed.Zero).Sub(m.epoch))
	if s := m.controller.Status(); len(s.Steps) > 0 {
		m.failover, m.began = s.Failover, s.Steps[0].At
	}
}

// Close saves the state and lets another controller have the file. It is called once the server has
// ended.
func (m *Module) Close() error {
	m.asks.Wait()
	return m.store.Close(func() (state savedState) {
		m.engines.Look(func() {
			orders, _ := m.controller.Saving()
			state = m.state(orders)
		})
		return state
	})
}

// wall is the time of day of a time of the server's clock.
func (m *Module) wall(at time.Duration) time.Time { return m.epoch.Add(at) }

// routes are the module's endpoints.
func (m *Module) routes() []serving.Route {
	list := []serving.Route{
		{Method: http.MethodGet, Path: "/v1/gearshift/events", Access: serving.ClientKey, About: "each step of a failover as it happens, as server-sent events or over a WebSocket", Handler: m.events},
		{Method: http.MethodGet, Path: "/admin/failover", Access: serving.AdminRead, About: "hosts, applications and their backups, and the last failover", Handler: m.serveStatus},
		{Method: http.MethodPost, Path: "/admin/failover/drill", Access: serving.AdminToken, About: "treats a host as lost, until failback", Handler: m.drill},
		{Method: http.MethodPost, Path: "/admin/failover/failback", Access: serving.AdminToken, About: "ends drills, and moves applications back to hosts that have returned", Handler: m.failback},
		{Method: http.MethodPost, Path: "/admin/agents/{host...}", Access: serving.FleetToken, About: "registers the agent of the host's engine", Handler: m.agents.register},
		{Method: http.MethodDelete, Path: "/admin/agents/{host...}", Access: serving.FleetToken, About: "takes the host out of use, as its engine is about to end", Handler: m.agents.leave},
		{Method: http.MethodPost, Path: "/admin/agents/{host...}/heartbeat", Access: serving.FleetToken, About: "takes a heartbeat of the host's agent", Handler: m.agents.pulse},
		{Method: http.MethodGet, Path: "/admin/agents/{host...}/presence", Access: serving.FleetToken, About: "stays open as long as the agent's process lives", Handler: m.agents.attend},
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		list = append(list, serving.Route{Method: method, Path: "/admin/models/{name...}", Access: serving.FleetToken, About: "a model's files, as a tar, for agents", Handler: m.models.serve})
	}
	return list
}
