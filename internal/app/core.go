package app

import (
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"gearshift/env/engine"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/router/tiers"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/engines/agents"
	"gearshift/serving/engines/informed"
	"gearshift/serving/experience"
	"gearshift/serving/openai/wire"
	"gearshift/workloads"
)

// Core is a router, with its balancers that others have a part in.
type Core struct {
	*router.Core
	// hears chooses by what engines say of their load; nil if the core's balancer does not.
	hears *informed.Balancer
	// tiers divides requests among tiers; nil without any.
	tiers *tiers.Balancer
}

// NewCore returns the router with a rule as its fallback and no policy yet.
func NewCore(s *scenario.Scenario, rule string, log *slog.Logger) (x Core, err error) {
	table := s.ServingTable()
	rules, err := s.Maker(table)
	if err != nil {
		return x, err
	}
	fallback, err := rules.Parse(rule)
	if err != nil {
		return x, err
	}
	balancer, hears, err := s.Informed(table)
	x.hears = hears
	if hears == nil && err == nil {
		balancer, err = s.Balancer()
	}
	if err != nil {
		return x, err
	}
	if list, members, _ := s.ServingTiers(table); len(list) > 0 {
		x.tiers = tiers.NewBalancer(balancer, members, list)
		balancer = x.tiers
	}
	var spare router.Policy
	if p, err := rules.Parse(policy.Cautious); err == nil { // else the fallback decides
		spare = p
	}
	x.Core, err = joined(s, table, fallback, spare, balancer, log)
	return x, err
}

// joined makes the core of its parts.
func joined(s *scenario.Scenario, table *fleet.Table, fallback, spare router.Policy, balancer router.Balancer, log *slog.Logger) (*router.Core, error) {
	ledger := fleet.NewLedger(table)
	ledger.ShareRate(s.Serving.Server.Routers)
	panics := rate.Sometimes{First: 3, Interval: 10 * time.Second}
	return router.New(router.Config{
		Ledger: ledger, Fallback: fallback, Spare: spare, Balancer: balancer,
		Forecaster: s.Forecaster(),
		Gate:       s.Gate(),
		Seed:       workloads.Seed(workloads.Serving, 0),
		OnPanic: func(name string, value any) { // of each request, maybe
			panics.Do(func() { log.Error("a policy panicked", "policy", name, "panic", value) })
		},
	})
}

// NewDrift compares what is served with the scenario's profiles.
func NewDrift(s *scenario.Scenario, t *fleet.Table, log *slog.Logger) *drift.Monitor {
	return drift.New(driftConfig(s, t, log))
}

func driftConfig(s *scenario.Scenario, t *fleet.Table, log *slog.Logger) drift.Config {
	return drift.Config{
		Table: t, Profiles: s.Profiles(), Sequences: s.Engine.MaxSequences,
		Chunked: s.Engine.Scheduler == engine.ChunkedPrefill, Log: log,
	}
}

// NewBackends makes what answers for each replica.
func NewBackends(s *scenario.Scenario, t *fleet.Table) ([]serving.Backend, func(), error) {
	list, closeAll, err := newTransports(s, t)
	for i := range list {
		list[i].Cut = cutOf(s, t.Replicas[i].Variant)
	}
	return list, closeAll, err
}

// cutOf returns what the variant leaves out of messages.
func cutOf(s *scenario.Scenario, variant int) (c wire.Cut) {
	for _, name := range s.LeavesOut(variant) {
		c.Without |= wire.ModalityNamed(name)
	}
	c.Coarse = s.Variants[variant].ImageDetail == scenario.LowDetail
	return c
}

// newTransports makes the backends as far as their engines are concerned.
func newTransports(s *scenario.Scenario, t *fleet.Table) ([]serving.Backend, func(), error) {
	list := make([]serving.Backend, len(t.Replicas))
	if s.Serving.Backend == scenario.Upstream {
		upstreams, closeAll, err := newUpstreams(s, t)
		for i, u := range upstreams {
			endpoint := s.Serving.Upstreams[u.at().replica]
			list[i] = serving.Backend{Transport: u, Model: endpoint.Model, Timeouts: endpoint.Timeouts, Context: endpoint.Context}
			if list[i].Lifecycle, err = agents.DialectNamed(endpoint.Lifecycle); err != nil { // which the check has tried
				closeAll()
				return nil, nil, err
			}
		}
		return list, closeAll, err
	}
	if s.Serving.Backend == scenario.ONNX {
		engines, closeAll, err := onnxruntime.Engines(s, t)
		for i, e := range engines {
			list[i].Transport = e
			list[i].Context = s.LocalModels()[i].Context
		}
		return list, closeAll, err
	}
	simulated, err := NewSimulated(s, t, s.Profiles())
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		list[i].Transport = simulated.Replica(i)
	}
	return list, simulated.Close, nil
}

// NewSimulated makes engines that take their time by the profiles.
func NewSimulated(s *scenario.Scenario, t *fleet.Table, profiles []*profile.Profile) (*backend.Simulated, error) {
	config := backend.SimulatedConfig{
		Table: t, OutputTokens: s.Workload.OutputSampler(t.Tasks), Seed: workloads.Seed(workloads.Serving, 1),
	}
	for i, tokens := range s.KVTokens() {
		e, err := engine.New(s.Engine, profiles[i], tokens)
		if err != nil {
			return nil, fmt.Errorf("replica %s: %w", t.Replicas[i].Name, err)
		}
		config.Engines = append(config.Engines, e)
	}
	return backend.NewSimulated(config)
}

// LogExperience makes the server log what it routes, if the scenario says so. Begin
// begins the files, which a start that fails leaves alone; end ends the log, after
// the server.
func LogExperience(o *serving.Options, s *scenario.Scenario) (begin func() error, end func(), err error) {
	if !o.Config.Experience.On() {
		return func() error { return nil }, func() {}, nil
	}
	header := experience.NewHeader(o.Router.Table())
	header.Scenario, header.ScenarioHash = s.Name, s.Hash()
	store, err := experience.New(o.Config.Experience, header, o.Log)
	if err != nil {
		return nil, nil, err
	}
	recorder := experience.NewRecorder(o.Router, store)
	o.Router, o.Modules = recorder, append(o.Modules, serving.Parts{Metrics: recorder.Metrics(), Watcher: recorder})
	return store.Begin, func() {
		if err := store.Close(); err != nil {
			o.Log.Error("cannot end the log of experience", "error", err)
		}
	}, nil
}
