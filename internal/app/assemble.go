package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"

	"gearshift/checkpoints"
	"gearshift/internal/etcd"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/modality"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/config"
	"gearshift/serving/control"
	"gearshift/serving/control/states"
	shared "gearshift/serving/control/states/etcd"
	"gearshift/serving/discovery"
	"gearshift/serving/peers"
	"gearshift/serving/picker"
	"gearshift/serving/streams"
)

// assembly makes a server of a scenario: for [Serve], and for [Rehearse], which finds out whether it can be
// made. The fields up to the first blank line are set before.
type assembly struct {
	o                      Options
	s                      *scenario.Scenario
	text                   []byte // of s; nil for [Rehearse]
	config                 config.Config
	log                    *slog.Logger
	backends               func(*scenario.Scenario, *fleet.Table) ([]serving.Backend, func(), error)
	sources                sources
	traces                 traces
	memory                 int64
	files                  int
	adminToken, fleetToken string

	routing *Reloader
	learner *learner
	options serving.Options
	server  *serving.Server
	streams *streams.Module   // nil: it serves none
	sharing *control.Sharing  // nil: the store is in a file
	peers   *peers.Module     // nil: it knows of no other routers
	states  stateFiles        // of controllers
	leads   *shared.Store     // decides which router acts; nil: this one does
	tuning  *tuning           // nil: nothing is searched for
	picker  *picker.Module    // nil: no gateway asks it
	finder  *discovery.Module // nil: no engines are discovered
	begin   func() error      // of the log of experience, once the listeners are open
	closers []func()
}

// close closes what has been made, the last first.
func (x *assembly) close() {
	for _, f := range slices.Backward(x.closers) {
		f()
	}
}

// closing has what outlives the server closed after it.
func (x *assembly) closing(c io.Closer) {
	x.closers = append(x.closers, func() {
		if err := c.Close(); err != nil {
			x.log.Error("cannot end in order", "error", err)
		}
	})
}

// assemble makes the server. With an error it returns the section of the scenario that the error is about.
func (x *assembly) assemble() (key string, err error) {
	if x.routing, err = startRouting(x.o, x.s, x.log); err != nil {
		return "serving", err
	}
	x.routing.text = x.text
	backends, closeBackends, err := x.backends(x.s, x.routing.core.Table())
	if err != nil {
		return "serving", err
	}
	x.closers = append(x.closers, closeBackends)
	x.routing.upstreams = upstreamsOf(backends)
	x.learner = newLearner(&x.o, x.s, x.routing, x.log)
	x.options = x.serverOptions(backends)
	if x.tuning = newTuning(x.o, x.s, x.routing); x.tuning != nil {
		x.options.Tuning = x.tuning.shown
	}
	if q := newQualities(x.s, x.routing); q != nil {
		x.options.Predictors = q.predictors
		service, learning := q.learning(x.learner)
		x.closing(learning)
		x.options.Feedback, x.options.Modules = service, append(x.options.Modules, learning)
		if x.config.Admin.Addr != config.AdminOff {
			x.options.Modules = q.shown(x.options.Modules)
		}
	}
	if x.config.Admin.Addr != config.AdminOff {
		x.options.Modules = x.learner.shown(x.options.Modules)
	}
	if err := x.several(); err != nil {
		return "", err
	}
	if key, err := x.controllers(); err != nil {
		return key, err
	}
	x.options.Modality = jobsConfig(x.s, x.routing.core.Table(), x.o.storeOfFallbacks(), x.log)
	if err := x.planJobs(); err != nil {
		return "modality", err
	}
	if key, err := x.neighbours(); err != nil {
		return key, err
	}
	begin, end, err := LogExperience(&x.options, x.s)
	if err != nil {
		return "serving.experience", err
	}
	x.begin, x.closers = begin, append(x.closers, end)
	x.server, err = serving.New(x.options)
	switch {
	case errors.Is(err, serving.ErrJobs):
		return "models", err
	case err != nil:
		return "serving", err
	}
	x.closers = append(x.closers, x.server.Close, x.learner.run(x.server.Exclusively))
	return "", nil
}

// several adds what routers of a fleet share: the store, and the load of each on the replicas.
func (x *assembly) several() error {
	if x.sharing = x.routing.sharing(); x.sharing != nil {
		x.options.Modules = append(x.options.Modules, x.sharing)
	}
	if p := x.config.Peers; p.On() {
		x.peers = peers.New(peers.Options{Config: p, Ledger: x.routing.core.Ledger(), Token: x.fleetToken, TLS: x.config.Admin.TLS.On(), Log: x.log})
		x.options.Modules = append(x.options.Modules, x.peers)
	}
	return x.lead()
}

// neighbours adds the discovery of engines and the picker for gateways.
func (x *assembly) neighbours() (key string, err error) {
	if x.finder, err = x.newDiscovery(); err != nil {
		return "serving.discovery", err
	}
	if x.finder != nil {
		x.options.Modules = append(x.options.Modules, x.finder)
	}
	if x.picker, err = x.newPicker(); err != nil {
		return "serving.picker", err
	}
	if x.picker != nil {
		x.options.Modules = append(x.options.Modules, x.picker)
	}
	return "", nil
}

// startRouting makes the scenario's core with its fallback, and puts the policy asked for in charge.
func startRouting(o Options, s *scenario.Scenario, log *slog.Logger) (*Reloader, error) {
	fallback, err := chooseFallback(s, o.storeOfFallbacks())
	if err != nil {
		return nil, err
	}
	x, err := NewCore(s, fallback.rule, log)
	if err != nil {
		return nil, err
	}
	r, err := NewReloader(o, s, x.Core, log)
	if err != nil {
		return nil, err
	}
	r.fallback, r.balancer, r.tiers = fallback, x.hears, x.tiers
	return r, r.Choose()
}

// serverOptions returns what the server is made of. The pages of operators are left out where there is no
// admin listener.
func (x *assembly) serverOptions(backends []serving.Backend) serving.Options {
	table := x.routing.core.Table()
	options := serving.Options{
		Config: x.config, Router: x.routing.core, Backends: backends, Log: x.log, Version: x.o.Version, Tracer: x.traces.Tracer(),
		AdminToken: x.adminToken, FleetToken: x.fleetToken, Reloader: x.routing, OutputTokens: x.s.Lengths().Output,
		Drift: x.learner.monitor(x.s, x.log), Memory: x.memory, Files: x.files,
		Objective: x.routing.objectives.objective, Balancer: x.routing.balancer,
	}
	if x.config.Admin.Addr != config.AdminOff {
		options.Modules = modules(table, dashboard.About{Version: x.o.Version, Scenario: x.s.Name, Addr: x.config.Addr})
	}
	return options
}

// modules returns the pages of a server that has an admin listener.
func modules(t *fleet.Table, about dashboard.About) []serving.Module {
	return []serving.Module{dashboard.Profiles{}, dashboard.New(t, about, nil)}
}

// controllers adds what changes the fleet while it serves: failover, rollout, rebalancing, counts of replicas, layouts
// of hosts, tiers, and what shows how busy hosts are.
func (x *assembly) controllers() (key string, err error) {
	t, l := x.routing.core.Table(), x.routing.core.Ledger()
	busy := x.s.Busy(l)
	x.options.Busy = busy
	files, modules := x.states, x.options.Modules
	failover, err := x.o.newFailover(x.s, t, files, x.log)
	if err != nil {
		return "failover", err
	}
	if failover != nil {
		x.closing(failover)
	}
	versions, err := x.o.newRollout(x.s, l, busy, x.options.Backends, files, x.log)
	if err != nil {
		return "rollout", err
	}
	if versions != nil {
		x.closing(versions)
		modules = append(modules, versions)
	}
	if failover != nil {
		modules = append(withFailover(modules, failover), failover)
	}
	moves, err := newRebalancing(x.s, l, busy, x.log)
	if err != nil {
		return "serving.rebalancing", err
	}
	if moves != nil {
		modules = append(modules, moves)
	}
	counts, err := x.o.newScaling(x.s, l, busy, files, x.log)
	if err != nil {
		return "serving.replicas", err
	}
	if counts != nil {
		x.closing(counts)
		modules = append(modules, counts)
	}
	modules, placed, err := x.sizes(modules, l, busy)
	if err != nil {
		return "serving.placement", err
	}
	modules = append(modules, control.Shown{Busy: busy, Always: x.s.Measures()})
	if modules, err = withTiers(modules, x.s, x.routing, busy); err != nil {
		return "serving.tiers", err
	}
	if modules, err = x.serveStreams(modules, l); err != nil {
		return "", err
	}
	if x.o.State != "" && len(files) == 0 {
		return "", fmt.Errorf("--state %s: %s has no controller that keeps a state; want a section failover, rollout or serving.replicas, or no such flag", x.o.State, x.o.Scenario)
	}
	if modules, err = withTail(modules, x.s, t, busy, moves, versions, counts, placed); err != nil {
		return "serving.tail", err
	}
	x.options.Modules = modules
	return "", nil
}

// sizes adds what decides which sizes are up on a host, or what wakes those that requests are held for.
func (x *assembly) sizes(modules []serving.Module, l *fleet.Ledger, busy *signals.Busy) ([]serving.Module, *control.Placement, error) {
	if x.s.Waking() {
		modules = append(modules, control.NewWaking(l, x.log))
	}
	placed, err := x.newPlacement(l, busy)
	if placed != nil {
		modules = append(modules, placed)
	}
	return modules, placed, err
}

// lead elects one acting router of those that keep their controllers' states in etcd.
func (x *assembly) lead() error {
	x.states = stateFiles{}
	files := map[string]string{"--failover-state": x.o.FailoverState, "--rollout-state": x.o.RolloutState}
	for flag, path := range files {
		if etcd.Is(path) {
			return fmt.Errorf("%s: want a file; --state keeps all states in etcd, as one router acts for all of them", flag)
		}
	}
	at := cmp.Or(x.o.State, x.o.Store)
	if !etcd.Is(at) {
		return nil
	}
	address, err := etcd.Parse(at)
	if err != nil || !x.s.Controlled() {
		return err
	}
	for flag, path := range files {
		if path != "" {
			return fmt.Errorf("%s %s: routers elect the one that acts at %s, which keeps all states; want no such flag, or one router with --state FILE", flag, path, address)
		}
	}
	if x.leads, err = shared.New(shared.Options{Address: address, Log: x.log}); err != nil {
		return err
	}
	x.closing(x.leads)
	x.options.Acts = x.leads.Acts
	x.o.State, x.states[filepath.Clean(at)] = at, x.leads
	x.options.Modules = append(x.options.Modules, control.Leading{Acts: x.leads.Acts, Term: x.leads.Term})
	return nil
}

// stateFiles are those of controllers, by path: controllers of different kinds may share one.
type stateFiles map[string]states.Store

// of returns the file of the first path that is not empty; nil if all are.
func (f stateFiles) of(paths ...string) states.Store {
	path := cmp.Or(paths...)
	if path == "" {
		return nil
	}
	path = filepath.Clean(path)
	if f[path] == nil {
		f[path] = states.At(path)
	}
	return f[path]
}

// planJobs has jobs planned by a stored policy where the scenario names one. Without a store foresight
// stands for it.
func (x *assembly) planJobs() error {
	c := &x.options.Modality
	if x.o.Store == "" && modality.IsStored(c.Policy) {
		c.Policy = ""
	}
	late, err := planByStored(c, &checkpoints.Store{Path: x.o.Store}, x.log)
	if err != nil {
		return fmt.Errorf("%s: %w", x.o.Scenario, err)
	}
	if late != nil {
		x.routing.stored = append(x.routing.stored, late.take)
	}
	return nil
}

// Rehearse makes the server that [Serve] would make of the scenario, but for what is not in its file: models,
// stored policies, state, keys, secrets and ports. It returns why there can be no such server, and the section
// of the scenario that is at fault.
func Rehearse(s *scenario.Scenario) (key string, err error) {
	o := Options{Scenario: s.Name, Policy: usual(s).rule, Engine: onnxruntime.Native}
	c := o.config(s)
	c.KeysFile, c.UsageFile, c.TLS, c.Admin.TLS = "", "", config.TLS{}, config.TLS{}
	c.Experience.Path = ""
	x := assembly{o: o, s: s, config: c, log: slog.New(slog.DiscardHandler), backends: rehearsedBackends, sources: rehearsedSources, adminToken: "asked-for-by-nobody"}
	defer x.close()
	return x.assemble()
}

// rehearsedBackends makes backends that load no models.
func rehearsedBackends(s *scenario.Scenario, t *fleet.Table) ([]serving.Backend, func(), error) {
	if s.Serving.Backend != scenario.ONNX {
		return NewBackends(s, t)
	}
	list := make([]serving.Backend, len(t.Replicas))
	for i := range list {
		list[i] = serving.Backend{Transport: http.DefaultTransport, Cut: cutOf(s, t.Replicas[i].Variant)}
	}
	return list, func() {}, nil
}
