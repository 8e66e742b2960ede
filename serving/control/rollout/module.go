// Package rollout runs a controller of versions within the server: it has the lifecycles of replicas
// load and unload what the controller decides, splits requests between two versions of a model by
// shares, counts how each does, takes operators' orders, and keeps the controller's state in a file.
package rollout

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control/states"
	"gearshift/serving/engines"
)

// Options are what a Module is made of.
type Options struct {
	// Models are those whose versions change. Replicas are those of the table.
	Models []rollout.Versioned
	// Controller sets how versions change. Its reports are the module's.
	Controller rollout.Options
	Ledger     *fleet.Ledger
	// Names are those of the replicas' models in their engines, by replica; nil of one whose name
	// does not change. The module sets them, and reads at first what the first version is called.
	Names []*config.Name
	// Pattern is how an engine calls another version than the first, with {model} for what it calls
	// that, and {version}.
	Pattern string
	// Busy measures hosts, by which changes wait.
	Busy *signals.Busy
	// States is where the controller's state survives the router; nil is nowhere.
	States states.Store
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Module is the versions of a server. It implements [serving.Module], and joins one server.
type Module struct {
	options    Options
	controller *rollout.Replicas                // the runner's
	shown      atomic.Pointer[rollout.Replicas] // the same, for requests
	claim      func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims
	store      *states.Saver[rollout.State] // nil without one
	engines    *engines.Engines
	ledger     *fleet.Ledger
	table      *fleet.Table
	clock      func() time.Duration
	log        *slog.Logger
	metrics    *metrics
	base       []string // by replica, what its engine calls the first version
	resuming   []string // by replica, what its engine is to call its version once the controller has resumed; else nil
	resumed    bool
}

// New makes a Module, and holds the state file until [Module.Close].
func New(o Options) (*Module, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	table := o.Ledger.Table()
	m := &Module{options: o, ledger: o.Ledger, table: table, log: o.Log, base: make([]string, len(table.Replicas))}
	m.metrics = newMetrics(m)
	m.nameFirst()
	store, last, err := states.Open[rollout.State](o.States, states.Rollout, o.Now())
	if err != nil {
		return nil, err
	}
	m.store = store
	if err := m.newController(last, 0); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// nameFirst notes what engines call the first version: a location's two replicas have one engine, which calls
// it what the first of them is called.
func (m *Module) nameFirst() {
	for i, name := range m.options.Names {
		if name != nil { // else of a model that is updated in real time
			m.base[i] = name.Get()
		}
	}
	m.eachSecond(func(first, second int) { m.base[second] = m.base[first] })
}

// eachSecond calls f with the two replicas of each location that has two.
func (m *Module) eachSecond(f func(first, second int)) {
	for i := range m.options.Models {
		for _, x := range m.options.Models[i].Locations {
			if x.Replicas[1] >= 0 {
				f(x.Replicas[0], x.Replicas[1])
			}
		}
	}
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.engines, m.clock = s.Engines(), s.Clock()
	m.claim, _ = m.engines.Claims()
	m.controller.Claim(m.claim, m.found)
	m.engines.OnFailed(func(replica int) { m.shown.Load().Failed(replica) })
	m.engines.Join(m)
	m.store.Follow(m.turn)
	m.store.Begin(m.log, func(_ rollout.State, err error) {
		if err != nil && m.engines.StandsBy() == nil {
			m.metrics.unsaved.Inc()
			m.log.Error("which versions are where is not saved; they change all the same", "error", err)
		}
	})
	m.tellStart()
	return serving.Parts{Routes: m.routes(), Metrics: m.metrics.collectors(), Watcher: m, Hide: func(r *fleet.Request) []int { return m.shown.Load().Hide(r) }}
}

// found restores a replica's state from an earlier run.
func (m *Module) found(replica int, is fleet.State) { m.engines.Found(replica, is, 0) }

// turn restarts the controller from the state that another router has saved. A router that stands by divides
// requests like the acting one.
func (m *Module) turn(t states.Turn, last *rollout.State) (err error) {
	if !t.Acts && last == nil {
		return nil // it no longer acts: shares stay until another router saves some
	}
	m.engines.Do(func() {
		if err = m.newController(last, m.clock()); err == nil {
			m.controller.Claim(m.claim, m.found)
		}
	})
	return err
}

// newController makes the controller, which resumes from an earlier one's state. Requests see it, and the names that it
// gives models, once it has resumed.
func (m *Module) newController(last *rollout.State, now time.Duration) error {
	c := m.options.Controller
	c.Report = m.report
	made, err := rollout.NewReplicas(m.options.Models, c, m.ledger, m.options.Busy, m.name)
	if err != nil {
		return err
	}
	m.resuming = slices.Clone(m.base)
	m.eachSecond(func(_, second int) { m.resuming[second] = "" }) // it has no version yet
	if last != nil {
		err = made.Resume(*last, now)
	}
	names := m.resuming
	if m.resuming = nil; err != nil {
		return fmt.Errorf("cannot go on from the rollout state file %s: %w; move it away to begin without it", m.store.Path(), err)
	}
	for r, name := range m.options.Names {
		if name != nil {
			name.Set(names[r])
		}
	}
	m.controller, m.resumed = made, last != nil
	m.shown.Store(made)
	return nil
}

// Close saves the state and lets another controller have the file. It is called once the server has
// ended.
func (m *Module) Close() error {
	return m.store.Close(func() (state rollout.State) {
		m.engines.Look(func() { state = m.controller.State(m.clock()) })
		return state
	})
}

// Observe implements [control.Controller]. The ends of what the controller wants come by its claims.
func (m *Module) Observe(control.Event) {}

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	next := m.controller.Wake(now)
	if m.controller.Changed() {
		m.store.Keep(m.controller.State(now))
	}
	return next
}

// name has an engine call the next load of a replica's model by a version.
func (m *Module) name(r int, model *rollout.Versioned, version string) {
	name := m.nameOf(r, model.Version, version)
	if m.resuming != nil {
		m.resuming[r] = name
		return
	}
	m.options.Names[r].Set(name)
}

// nameOf is what an engine calls the version.
func (m *Module) nameOf(replica int, model, version string) string {
	switch version {
	case model:
		return m.base[replica]
	case "":
		return ""
	}
	return strings.NewReplacer("{model}", m.base[replica], "{version}", version).Replace(m.options.Pattern)
}

// tellStart says in the log what is controlled.
func (m *Module) tellStart() {
	attributes := []any{"models", len(m.options.Models), "at_once", m.options.Controller.AtOnce, "utilisation", m.options.Controller.Utilisation}
	if m.store != nil {
		attributes = append(attributes, "state", m.store.Path(), "resumed", m.resumed)
	}
	m.log.Info("versions of models can be changed", attributes...)
	if m.store == nil {
		m.log.Warn("which versions are where is in no file: a router that starts again takes each model for having its first one", "to_keep_it", "gearshift serve --state FILE")
	}
}

// report follows a step of the controller, within its Wake or an order.
func (m *Module) report(s rollout.Step) {
	name := m.options.Models[s.Model].Name
	host := ""
	if s.Location >= 0 {
		host = m.table.Hosts[m.options.Models[s.Model].Locations[s.Location].Host].Name
	}
	m.metrics.took(s, name)
	attributes := []any{"model", name, "from", s.From, "to", s.To}
	if host != "" {
		attributes = append(attributes, "host", host)
	}
	switch s.Kind {
	case rollout.StepWorse:
		m.log.Warn("a version goes back", append(attributes, "why", s.Reason)...)
	case rollout.StepFailed:
		m.log.Warn("a change of version has failed", append(attributes, "why", s.Reason)...)
	case rollout.StepOverdue:
		m.log.Warn("a version has been wanted for longer than the bound", append(attributes, "for", s.Took, "waits", s.Reason)...)
	case rollout.StepDone, rollout.StepChanged:
		m.log.Info("version "+string(s.Kind), append(attributes, "took", s.Took)...)
	default:
		m.log.Info("version "+string(s.Kind), append(attributes, "share", s.Share)...)
	}
}
