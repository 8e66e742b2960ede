// Package rollout runs a controller of versions within the server: it has the lifecycles of replicas
// load and unload what the controller decides, splits requests between two versions of a model by
// shares, counts how each does, takes operators' orders, and keeps the controller's state in a file.
package rollout

import (
	"errors"
	"fmt"
	"log/slog"
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
	"gearshift/serving/control/statefile"
	"gearshift/serving/engines"
)

// Options are what a Module is made of.
type Options struct {
	// System is the models. Replicas are those of the table.
	System *rollout.System
	// Controller sets how versions change. Its reports are the module's.
	Controller rollout.Options
	Ledger     *fleet.Ledger
	// Names are those of the replicas' models in their engines, by replica; nil of one whose name
	// does not change. The module sets them, and reads at first what the first version is called.
	Names []*config.Name
	// Pattern is how an engine calls another version than the first, with {model} for what it calls
	// that, and {version}.
	Pattern string
	// Slots is how many requests each replica works on at a time: what its host is busy with is
	// measured by that.
	Slots []int
	// StateFile is where the controller's state survives the router; empty: nowhere.
	StateFile string
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Module is the versions of a server. It implements [serving.Module], and joins one server.
type Module struct {
	options    Options
	controller *rollout.Controller
	store      *statefile.Store[rollout.State] // nil without a file
	engines    *engines.Engines
	ledger     *fleet.Ledger
	table      *fleet.Table
	clock      func() time.Duration
	reported   func(replica int) signals.Known
	log        *slog.Logger
	metrics    *metrics
	counts     []counter
	locations  []location // of all models
	live       []int      // replicas of models that are updated in real time, which stay
	base       []string   // by replica, what its engine calls the first version
	hidden     atomic.Pointer[split]

	// What follows is the runner's: it is used while it is locked.
	claims   *lifecycle.Claims
	changing []int     // a replica of each location that is being changed
	parts    []float64 // by replica, of the requests of its location
	busy     []busy    // by host
	changed  bool      // something has happened that the file does not have yet
	resumed  bool
}

// location is where a model answers, as its requests see it.
type location struct {
	model, index int
	replicas     [2]int
	others       []int // replicas of other locations of the model
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
	n := len(table.Replicas)
	m := &Module{
		options: o, ledger: o.Ledger, table: table, log: o.Log, counts: make([]counter, n), base: make([]string, n),
		parts: make([]float64, n), busy: make([]busy, len(table.Hosts)),
	}
	m.metrics = newMetrics(m)
	m.findLocations()
	store, last, err := statefile.OpenStore[rollout.State]("rollout", o.StateFile, o.Now())
	if err != nil {
		return nil, err
	}
	m.store = store
	if err := m.newController(last); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// findLocations notes where models answer. A location's two replicas have one engine, which calls the
// first version what the first of them is called.
func (m *Module) findLocations() {
	for i := range m.options.System.Models {
		var all []int
		at := m.options.System.Models[i].Locations
		for _, x := range at {
			all = append(all, x.Replicas[0], x.Replicas[1])
		}
		for j, x := range at {
			own := location{model: i, index: j, replicas: x.Replicas}
			for _, r := range all {
				if r >= 0 && r != x.Replicas[0] && r != x.Replicas[1] {
					own.others = append(own.others, r)
				}
			}
			m.locations = append(m.locations, own)
			for _, r := range x.Replicas {
				if name := m.options.Names[x.Replicas[0]]; r >= 0 && name != nil { // nil of a model that is updated in real time
					m.base[r] = name.Get()
				}
			}
			if m.parts[x.Replicas[0]] = 1; m.options.System.Models[i].RealTime {
				m.live = append(m.live, x.Replicas[0])
			}
		}
	}
	for _, x := range m.locations {
		if r := x.replicas[1]; r >= 0 {
			m.options.Names[r].Set("") // it has no version yet
		}
	}
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.engines, m.clock, m.reported = s.Engines(), s.Clock(), s.LoadOf
	m.claims = m.engines.Claim(lifecycle.Versions, m.controller.Observe)
	for _, x := range m.locations {
		if x.replicas[1] >= 0 {
			m.claims.TakeTurns(x.replicas[0], x.replicas[1])
		}
	}
	m.claim()
	if m.resumed {
		m.takeOver()
	}
	m.engines.OnFailed(func(replica int) { m.counts[replica].add(true, 0) })
	m.engines.Join(m)
	m.store.Begin(m.log, func(_ rollout.State, err error) {
		if err != nil {
			m.metrics.unsaved.Inc()
			m.log.Error("which versions are where is not saved; they change all the same", "error", err)
		}
	})
	m.split()
	m.tellStart()
	return serving.Parts{Routes: m.routes(), Metrics: m.metrics.collectors(), Watcher: m, Hide: m.hide}
}

// newController makes the controller, which goes on from the state that an earlier one has left.
func (m *Module) newController(last *rollout.State) (err error) {
	c := m.options.Controller
	c.Report = m.report
	if m.controller, err = rollout.New(m.options.System, c, replicas{m}); err != nil || last == nil {
		return err
	}
	if err := m.controller.Resume(*last, 0); err != nil {
		return fmt.Errorf("cannot go on from the rollout state file %s: %w; move it away to begin without it", m.store.Path(), err)
	}
	m.resumed = true
	return nil
}

// takeOver brings the fleet to what the controller takes it for at the start.
func (m *Module) takeOver() {
	for _, x := range m.locations {
		if first := x.replicas[0]; m.engines.Placed(first) == fleet.Up && m.parts[first] == 0 {
			m.engines.Found(first, fleet.Cold, 0)
			m.engines.Found(x.replicas[1], fleet.Up, 0) // what the engines have is for them to say
		}
	}
}

// claim holds what is being changed, and has locations be loaded next as the controller has them.
func (m *Module) claim() {
	m.changing = m.controller.Changing()
	m.claims.Hold(m.live, m.changing)
	for _, r := range m.controller.Active() {
		m.claims.Turn(r)
	}
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

// sampling is how often hosts are looked at.
const sampling = 500 * time.Millisecond

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	m.sample(now)
	next := min(m.controller.Wake(now), now+sampling)
	m.claim()
	m.split()
	if m.changed {
		m.changed = false
		m.store.Keep(m.controller.State(now))
	}
	return next
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
	attributes := []any{"models", len(m.options.System.Models), "at_once", m.options.Controller.AtOnce, "utilisation", m.options.Controller.Utilisation}
	if m.store != nil {
		attributes = append(attributes, "state", m.store.Path(), "resumed", m.resumed)
	}
	m.log.Info("versions of models can be changed", attributes...)
	if m.store == nil {
		m.log.Warn("which versions are where is in no file: a router that starts again takes each model for having its first one", "to_keep_it", "gearshift serve --rollout-state FILE")
	}
}

// report follows a step of the controller, within its Wake or an order.
func (m *Module) report(s rollout.Step) {
	m.changed = true
	name := m.options.System.Models[s.Model].Name
	host := ""
	if s.Location >= 0 {
		host = m.table.Hosts[m.options.System.Models[s.Model].Locations[s.Location].Host].Name
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
