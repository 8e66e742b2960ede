package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/workloads"
)

// serveOptions are the flags of serve.
type serveOptions struct{ scenario, store, engine, policy, addr, admin string }

func newServeCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the scenario's fleet behind an OpenAI-compatible endpoint",
		Long: `Serve the scenario's fleet behind an OpenAI-compatible endpoint: each request for
the model "auto" goes to the size that the policy chooses. Without --policy, the
store's policy in production routes; if there is none, the scenario's fallback rule.

Policies: ` + policyForms,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), o, c.ErrOrStderr()) },
	}
	scenarioFlag(c, &o.scenario)
	storeFlag(c, &o.store)
	engineFlag(c, &o.engine)
	c.Flags().StringVar(&o.policy, "policy", "", "`REF` of the policy (default: the one in production)")
	c.Flags().StringVar(&o.addr, "addr", "", "`HOST:PORT` to listen on (default: the scenario's)")
	c.Flags().StringVar(&o.admin, "admin-addr", "", "`HOST:PORT` of the admin listener, or off (default: the scenario's)")
	return c
}

func serve(ctx context.Context, o serveOptions, stderr io.Writer) error {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	core, err := newCore(s, log)
	if err != nil {
		return err
	}
	if err := choosePolicy(core, s, o, log); err != nil {
		return err
	}
	backends, closeBackends, err := newBackends(s, core.Table())
	if err != nil {
		return err
	}
	defer closeBackends()
	config := s.Serving.Config()
	if o.addr != "" {
		config.Addr = o.addr
	}
	if o.admin != "" {
		config.Admin.Addr = o.admin
	}
	options := serving.Options{
		Config: config, Router: core, Backends: backends, Log: log,
		AdminToken: os.Getenv(config.Admin.TokenEnv),
	}
	closeLog, err := logExperience(&options, s)
	if err != nil {
		return err
	}
	defer closeLog()
	server, err := serving.New(options)
	if err != nil {
		return err
	}
	defer server.Close()
	log.Info("serving", "scenario", s.Name, "backend", s.Serving.Backend)
	return listenAndServe(ctx, server)
}

// listenAndServe opens the server's listeners and serves them: the operators' one
// for as long as the clients' one drains.
func listenAndServe(ctx context.Context, server *serving.Server) error {
	clients, err := server.Listen(ctx)
	if err != nil {
		return err
	}
	operators, err := server.ListenAdmin(ctx)
	if err != nil {
		return errors.Join(err, clients.Close())
	}
	if operators == nil {
		return server.Serve(ctx, clients)
	}
	adminCtx, stopAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAdmin()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var both errgroup.Group
	both.Go(func() error {
		err := server.ServeAdmin(adminCtx, operators)
		stop(err) // without it nobody could steer
		return err
	})
	both.Go(func() error {
		defer stopAdmin()
		return server.Serve(ctx, clients)
	})
	return both.Wait()
}

// newCore is the router with the scenario's fallback and no policy yet.
func newCore(s *scenario.Scenario, log *slog.Logger) (*router.Core, error) {
	table := s.ServingTable()
	rules, err := ruleMaker(s, table)
	if err != nil {
		return nil, err
	}
	fallback, err := rules.Parse(s.Serving.Fallback)
	if err != nil {
		return nil, err
	}
	balancer, err := balance.ByName(s.Serving.Balancer)
	if err != nil {
		return nil, err
	}
	return router.New(router.Config{
		Ledger: fleet.NewLedger(table), Fallback: fallback, Balancer: balancer,
		Forecaster: profile.NewForecaster(s.Profiles()),
		Seed:       workloads.Seed(workloads.Serving, 0),
		OnPanic:    func(name string, value any) { log.Error("a policy panicked", "policy", name, "panic", value) },
	})
}

// choosePolicy puts the policy asked for in charge. One that is asked for and
// cannot route is an error; one in production that cannot is left out, and the
// fallback routes.
func choosePolicy(core *router.Core, s *scenario.Scenario, o serveOptions, log *slog.Logger) error {
	source, err := newPolicySource(o.store, o.engine)
	if err != nil {
		return err
	}
	maker, err := ruleMaker(s, core.Table())
	if err != nil {
		return err
	}
	if policy.IsRule(o.policy) {
		rule, err := maker.Parse(o.policy)
		if err != nil {
			return err
		}
		return core.SetPolicy(rule)
	}
	ref := o.policy
	if ref == "" {
		production, err := source.store.Production()
		switch {
		case errors.Is(err, checkpoints.ErrNotFound):
			log.Warn("no policy is in production: the fallback routes", "fallback", core.PolicyName(),
				"to_train_one", fmt.Sprintf("gearshift train --scenario %s --store %s && gearshift policy promote %s --store %s", o.scenario, o.store, s.Name, o.store))
			return nil
		case err != nil:
			return err
		}
		ref = production.String()
	}
	p, entry, err := stored(source, ref, maker)
	if err == nil {
		err = core.SetPolicy(p)
	}
	if err != nil {
		if o.policy == "" && !errors.Is(err, checkpoints.ErrLocked) {
			log.Error("the policy in production cannot route: the fallback does", "policy", ref, "error", err, "fallback", core.PolicyName())
			return nil
		}
		return err
	}
	if entry.Meta.ScenarioHash != s.Hash() {
		log.Warn("the policy was trained on another version of the scenario", "policy", ref, "trained on", entry.Meta.Scenario)
	}
	return nil
}

// newBackends makes what answers for each replica.
func newBackends(s *scenario.Scenario, t *fleet.Table) ([]serving.Backend, func(), error) {
	if s.Serving.Backend == scenario.Upstream {
		return upstreams(s, t)
	}
	config := backend.SimulatedConfig{
		Table: t, OutputTokens: s.Workload.Output.Sampler(), Seed: workloads.Seed(workloads.Serving, 1),
	}
	profiles := s.Profiles()
	for i, tokens := range s.KVTokens() {
		e, err := engine.New(s.Engine, profiles[i], tokens)
		if err != nil {
			return nil, nil, fmt.Errorf("replica %s: %w", t.Replicas[i].Name, err)
		}
		config.Engines = append(config.Engines, e)
	}
	simulated, err := backend.NewSimulated(config)
	if err != nil {
		return nil, nil, err
	}
	list := make([]serving.Backend, len(t.Replicas))
	for i := range list {
		list[i].Transport = simulated.Replica(i)
	}
	return list, simulated.Close, nil
}

func upstreams(s *scenario.Scenario, t *fleet.Table) ([]serving.Backend, func(), error) {
	var open []*backend.Upstream
	closeAll := func() {
		for _, u := range open {
			u.Close()
		}
	}
	var list []serving.Backend
	for _, r := range t.Replicas {
		endpoint := s.Serving.Upstreams[r.Name]
		timeouts := endpoint.Timeouts.Or(s.Serving.Server.Timeouts.PhaseTimeouts)
		config := endpoint.UpstreamConfig
		config.ConnectTimeout = timeouts.Connect
		u, err := backend.NewUpstream(config)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("replica %s: %w", r.Name, err)
		}
		open = append(open, u)
		list = append(list, serving.Backend{Transport: u, Model: endpoint.Model, Timeouts: timeouts})
	}
	return list, closeAll, nil
}
