// Package app runs a router: it joins the core with a scenario's backends, policies and
// files, and reloads those while it serves.
package app

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
	"gearshift/internal/calibrate/draft"
	"gearshift/internal/scenario"
	"gearshift/router/policy"
	"gearshift/serving"
	"gearshift/serving/config/setting"
)

// Options say what is served, and how.
type Options struct {
	Scenario string // a built-in name or a file
	// Text holds a scenario made from what engines report; nil: Scenario names it.
	Text []byte
	// Assumed lists the values of Text that are not declared.
	Assumed []draft.Value
	Store   string // of policies: a file, or an address in etcd
	Engine  string // of [onnxruntime.Source]
	Policy  string // empty: the one in production
	Addr    string // to listen on; empty: the scenario's, like the others
	Admin   string
	ExtProc string // for gateways
	HTTP3   string // UDP
	Keys    string // file
	// State is the file of all controllers' states, or an address in etcd. Empty: the store, if in etcd.
	State string
	// FailoverState is the file of the failover controller's state; empty: State.
	FailoverState string
	// RolloutState is the file that keeps which versions of models are where; empty: State.
	RolloutState string
	// NoTuning turns off the search for a rule in the background.
	NoTuning bool
	Version  string // of the program
	// Remedy returns how to get a policy of the name into a store: a key of the log line, and
	// the commands.
	Remedy func(scenario, name, store string) (key, commands string)
}

// load reads the scenario, with its text.
func (o *Options) load() (*scenario.Scenario, []byte, error) {
	if o.Text != nil {
		s, err := scenario.Parse(o.Scenario, o.Text)
		return s, o.Text, err
	}
	return scenario.LoadText(o.Scenario)
}

// storeOfFallbacks returns the store that records which rule is best. It is nil if serve was
// asked to route by a rule: then it opens no store.
func (o *Options) storeOfFallbacks() *checkpoints.Store {
	if policy.IsRule(o.Policy) {
		return nil
	}
	return &checkpoints.Store{Path: o.Store}
}

// Serve serves until the context ends and requests in flight have ended. It returns in time even
// if something hangs, such as the file system.
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

// hangs is how long Serve waits for its end after requests have ended.
const hangs = 3 * time.Second

// serve does the work of [Serve]. It stores in limit how long the end may take, once it serves.
func serve(ctx context.Context, o Options, stderr io.Writer, limit *atomic.Pointer[func() time.Duration]) error {
	s, text, err := o.load()
	if err != nil {
		return err
	}
	showAssumed(stderr, o.Assumed)
	easeCollector()
	c := o.config(s)
	level := new(slog.LevelVar)
	level.Set(c.Log.Least())
	log := c.Log.Logger(stderr, level)
	traces, err := newTracing(ctx, c.Tracing, o.Version, log)
	if err != nil {
		return err
	}
	defer traces.close(log)
	x := assembly{
		o: o, s: s, text: text, config: c, log: log, backends: NewBackends, sources: usualSources, traces: traces, memory: memoryLimit(log), files: fileLimit(),
		adminToken: setting.Env(c.Admin.TokenEnv), fleetToken: setting.Env(c.Admin.FleetTokenEnv),
	}
	defer x.close()
	if _, err := x.assemble(); err != nil {
		return err
	}
	x.routing.Watch(func(s *scenario.Scenario) { level.Set(s.Serving.Server.Log.Least()) })
	server := x.server
	ends := func() time.Duration { return server.EndsWithin() + traces.endsWithin() }
	limit.Store(&ends)
	if x.streams != nil {
		end, err := x.streams.ListenHTTP3(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	defer reloadOnHangup(server)()
	defer discovers(ctx, x.finder)()
	log.Info("serving", "scenario", s.Name, "backend", s.Serving.Backend, "policy", x.routing.core.PolicyName(), "store", o.Store)
	defer x.tuning.begin(ctx)()
	defer x.peers.Begin(ctx)()
	if x.leads != nil {
		x.leads.Begin(server.Engines().Nudge)
	}
	defer x.routing.follow(ctx, server, x.sharing)()
	return x.listenAndServe(ctx)
}

// listenAndServe opens the server's listeners and serves them. The operators' listener serves for
// as long as the clients' one drains. The log begins once all are open, so that a start that
// fails does not begin it.
func (x *assembly) listenAndServe(ctx context.Context) (err error) {
	server := x.server
	var open []io.Closer
	defer func() {
		for _, l := range open {
			err = errors.Join(err, l.Close())
		}
	}()
	clients, err := server.Listen(ctx)
	if err != nil {
		return err
	}
	open = append(open, clients)
	operators, err := server.ListenAdmin(ctx)
	if err != nil {
		return err
	}
	if operators != nil {
		open = append(open, operators)
	}
	gateways, err := x.listenForGateways(ctx)
	if err != nil {
		return err
	}
	if err := x.begin(); err != nil {
		return err
	}
	open = nil // each is closed by what serves it
	if operators == nil {
		return serveClients(ctx, server, clients, gateways)
	}
	adminCtx, stopAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAdmin()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var both errgroup.Group
	both.Go(func() error {
		err := server.ServeAdmin(adminCtx, operators)
		stop(err) // a router that operators cannot reach stops
		return err
	})
	both.Go(func() error {
		defer stopAdmin()
		return serveClients(ctx, server, clients, gateways)
	})
	return both.Wait()
}

// reloadOnHangup makes the server reload its files at each SIGHUP, until stop is called.
func reloadOnHangup(server *serving.Server) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var done sync.WaitGroup
	done.Go(func() {
		for range hangups {
			_, _ = server.Reload("SIGHUP") // Reload logs its error
		}
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
		done.Wait()
	}
}
