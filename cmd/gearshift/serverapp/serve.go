// Package serverapp runs a router: it joins the core with a scenario's backends, policies and
// files, and steers it while it serves.
package serverapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/dashboard"
	"gearshift/serving/debug"
	"gearshift/serving/setting"
)

// Options say what is served, and how.
type Options struct {
	Scenario string // a built-in name or a file
	Store    string // file of policies
	Engine   string // of [onnxruntime.Source]
	Policy   string // empty: the one in production
	Addr     string // to listen on; empty: the scenario's, as of the others
	Admin    string
	Keys     string // file
	Version  string // of the program
	// Remedy says how a store of a scenario comes by a policy of the name: a key of the
	// log, and the commands.
	Remedy func(scenario, name, store string) (key, commands string)
}

// storeOfFallbacks is the store that records which rule is best; nil where serve is to
// route by a rule, and opens none.
func (o *Options) storeOfFallbacks() *checkpoints.Store {
	if policy.IsRule(o.Policy) {
		return nil
	}
	return &checkpoints.Store{Path: o.Store}
}

// Serve serves until the context ends, and what is in flight has. It returns in time even
// if something hangs, as the file system may.
func Serve(ctx context.Context, o Options, stderr io.Writer) error {
	var limit atomic.Pointer[func() time.Duration]
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, o, stderr, &limit) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	wait := hangs
	if l := limit.Load(); l != nil {
		wait += (*l)()
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("stopped while something hangs: %v after the order to stop, a file system or a pipe, for instance, does not answer", wait)
	}
}

// hangs is how long what is to be done at the end may take, after requests have ended.
const hangs = 3 * time.Second

// serve is Serve. Limit gets how long the end may take once it serves.
func serve(ctx context.Context, o Options, stderr io.Writer, limit *atomic.Pointer[func() time.Duration]) error {
	s, err := scenario.Load(o.Scenario)
	if err != nil {
		return err
	}
	easeCollector()
	c := o.config(s)
	level := new(slog.LevelVar)
	level.Set(c.Log.Least())
	log := c.Log.Logger(stderr, level)
	fallback, err := chooseFallback(s, o.storeOfFallbacks())
	if err != nil {
		return err
	}
	core, err := newCore(s, fallback.rule, log)
	if err != nil {
		return err
	}
	w, err := NewReloader(o, s, core, log)
	if err != nil {
		return err
	}
	w.fallback = fallback
	if err := w.Choose(); err != nil {
		return err
	}
	backends, closeBackends, err := NewBackends(s, core.Table())
	if err != nil {
		return err
	}
	defer closeBackends()
	w.upstreams = upstreamsOf(backends)
	w.Watch(func(s *scenario.Scenario) { level.Set(s.Serving.Server.Log.Least()) })
	traces, err := newTracing(ctx, c.Tracing, o.Version, log)
	if err != nil {
		return err
	}
	defer traces.close(log)
	options := serving.Options{
		Config: c, Router: core, Backends: backends, Log: log, Version: o.Version, Tracer: traces.Tracer(),
		AdminToken: setting.Env(c.Admin.TokenEnv), Reloader: w, OutputTokens: s.Lengths().Output,
		Drift: NewDrift(s, core.Table(), log), Memory: memoryLimit(log), Files: fileLimit(),
		Objective: w.objectives.objective,
	}
	if c.Admin.Addr != config.AdminOff {
		options.Modules = modules(core.Table(), dashboard.About{Version: o.Version, Scenario: s.Name, Addr: c.Addr})
	}
	beginLog, endLog, err := LogExperience(&options, s)
	if err != nil {
		return err
	}
	defer endLog()
	server, err := serving.New(options)
	if err != nil {
		return err
	}
	defer server.Close()
	ends := func() time.Duration { return server.EndsWithin() + traces.endsWithin() }
	limit.Store(&ends)
	defer reloadOnHangup(server)()
	log.Info("serving", "scenario", s.Name, "backend", s.Serving.Backend, "policy", core.PolicyName(), "store", o.Store)
	return listenAndServe(ctx, server, beginLog)
}

// modules are what joins a server that has an admin listener.
func modules(t *fleet.Table, about dashboard.About) []serving.Module {
	return []serving.Module{debug.Profiles{}, dashboard.New(t, about, nil)}
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
