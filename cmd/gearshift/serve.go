package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"gearshift/cmd/gearshift/local"
	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/router"
	"gearshift/router/admission"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/dashboard"
	"gearshift/workloads"
)

// serveOptions are the flags of serve.
type serveOptions struct{ scenario, store, engine, policy, addr, admin, keys string }

func newServeCommand() *cobra.Command {
	var o serveOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the scenario's fleet behind an OpenAI-compatible endpoint",
		Long: `Serve the scenario's fleet behind an OpenAI-compatible endpoint: each request for
the model "auto" goes to the size that the policy chooses. Without --policy, the
store's policy in production routes; if there is none, the scenario's fallback rule.

Policies: ` + policies.Forms,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), o, c.ErrOrStderr()) },
	}
	scenarioFlag(c, &o.scenario)
	storeFlag(c, &o.store)
	engineFlag(c, &o.engine)
	c.Flags().StringVar(&o.policy, "policy", "", "`REF` of the policy (default: the one in production)")
	c.Flags().StringVar(&o.addr, "addr", "", "`HOST:PORT` to listen on (default: the scenario's)")
	c.Flags().StringVar(&o.admin, "admin-addr", "", "`HOST:PORT` of the admin listener, or off (default: the scenario's)")
	c.Flags().StringVar(&o.keys, "keys", "", "`FILE` of the API keys (default: the scenario's)")
	return c
}

func serve(ctx context.Context, o serveOptions, stderr io.Writer) error {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	easeCollector()
	config := o.config(s)
	level := new(slog.LevelVar)
	level.Set(config.Log.Least())
	log := config.Log.Logger(stderr, level)
	core, err := newCore(s, log)
	if err != nil {
		return err
	}
	w, err := newSteward(o, s, core, log)
	if err != nil {
		return err
	}
	if err := w.choose(); err != nil {
		return err
	}
	backends, closeBackends, err := newBackends(s, core.Table())
	if err != nil {
		return err
	}
	defer closeBackends()
	w.upstreams, w.level = upstreamsOf(backends), level
	traces, err := newTracing(ctx, config.Tracing, log)
	if err != nil {
		return err
	}
	defer traces.close(log)
	options := serving.Options{
		Config: config, Router: core, Backends: backends, Log: log, Tracer: traces.Tracer(),
		AdminToken: os.Getenv(config.Admin.TokenEnv), Steward: w, OutputTokens: s.Lengths().Output,
		Drift: newDrift(s, core.Table(), log),
	}
	if config.Admin.Addr != serving.AdminOff {
		options.Page = dashboard.New(core.Table(), dashboard.About{Version: version, Scenario: s.Name, Addr: config.Addr}, nil)
	}
	beginLog, endLog, err := logExperience(&options, s)
	if err != nil {
		return err
	}
	defer endLog()
	server, err := serving.New(options)
	if err != nil {
		return err
	}
	defer server.Close()
	defer reloadOnHangup(server)()
	log.Info("serving", "scenario", s.Name, "backend", s.Serving.Backend)
	return listenAndServe(ctx, server, beginLog)
}

// listenAndServe opens the server's listeners and serves them: the operators' one
// for as long as the clients' one drains. Begin is called once both are open, so that
// a start that fails does nothing of it.
func listenAndServe(ctx context.Context, server *serving.Server, begin func() error) error {
	clients, err := server.Listen(ctx)
	if err != nil {
		return err
	}
	operators, err := server.ListenAdmin(ctx)
	if err != nil {
		return errors.Join(err, clients.Close())
	}
	if err := begin(); err != nil {
		if operators != nil {
			err = errors.Join(err, operators.Close())
		}
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

// reloadOnHangup has the server read its files anew at each SIGHUP, until stop.
func reloadOnHangup(server *serving.Server) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var done sync.WaitGroup
	done.Go(func() {
		for range hangups {
			_, _ = server.Reload("SIGHUP") // which has told the log
		}
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
		done.Wait()
	}
}

// newCore is the router with the scenario's fallback and no policy yet.
func newCore(s *scenario.Scenario, log *slog.Logger) (*router.Core, error) {
	table := s.ServingTable()
	rules, err := s.Maker(table)
	if err != nil {
		return nil, err
	}
	fallback, err := rules.Parse(s.Serving.Fallback)
	if err != nil {
		return nil, err
	}
	balancer, err := s.Balancer()
	if err != nil {
		return nil, err
	}
	ledger := fleet.NewLedger(table)
	ledger.ShareRate(s.Serving.Server.Routers)
	panics := rate.Sometimes{First: 3, Interval: 10 * time.Second}
	return router.New(router.Config{
		Ledger: ledger, Fallback: fallback, Balancer: balancer,
		Forecaster: profile.NewForecaster(s.Profiles()),
		Gate:       gate(s),
		Seed:       workloads.Seed(workloads.Serving, 0),
		OnPanic: func(name string, value any) { // of each request, maybe
			panics.Do(func() { log.Error("a policy panicked", "policy", name, "panic", value) })
		},
	})
}

// newDrift compares what is served with the scenario's profiles.
func newDrift(s *scenario.Scenario, t *fleet.Table, log *slog.Logger) *drift.Monitor {
	return drift.New(drift.Config{
		Table: t, Profiles: s.Profiles(), Sequences: s.Engine.MaxSequences,
		Chunked: s.Engine.Scheduler == engine.ChunkedPrefill, Log: log,
	})
}

// gate says where a request may be begun; nil if the scenario sheds nothing.
func gate(s *scenario.Scenario) router.Gate {
	o := s.Serving.Server.Overload
	if o.Shed == serving.ShedNever {
		return nil
	}
	return admission.Rule{
		Pace: o.Pace, KV: o.KV, Output: s.Lengths().Output,
		Sequences: s.Engine.MaxSequences, Profiles: s.Profiles(),
	}
}

// newBackends makes what answers for each replica.
func newBackends(s *scenario.Scenario, t *fleet.Table) ([]serving.Backend, func(), error) {
	list := make([]serving.Backend, len(t.Replicas))
	if s.Serving.Backend == scenario.Upstream {
		upstreams, closeAll, err := newUpstreams(s, t)
		for i, u := range upstreams {
			endpoint := s.Serving.Upstreams[u.replica]
			list[i] = serving.Backend{Transport: u, Model: endpoint.Model, Timeouts: endpoint.Timeouts}
		}
		return list, closeAll, err
	}
	if s.Serving.Backend == scenario.ONNX {
		engines, closeAll, err := local.Engines(s, t)
		for i, e := range engines {
			list[i].Transport = e
		}
		return list, closeAll, err
	}
	simulated, err := newSimulated(s, t, s.Profiles())
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		list[i].Transport = simulated.Replica(i)
	}
	return list, simulated.Close, nil
}

// newSimulated makes engines that take their time by the profiles.
func newSimulated(s *scenario.Scenario, t *fleet.Table, profiles []*profile.Profile) (*backend.Simulated, error) {
	config := backend.SimulatedConfig{
		Table: t, OutputTokens: s.Workload.Output.Sampler(), Seed: workloads.Seed(workloads.Serving, 1),
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
