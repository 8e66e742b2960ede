// Package serving is the HTTP side of the router: an OpenAI-compatible server
// that sends each request to the replica that the router chose, and passes the
// answer back as it comes.
package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/trace"

	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/access"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admin/overview"
	"gearshift/serving/admin/trial"
	"gearshift/serving/admission"
	"gearshift/serving/config"
	"gearshift/serving/engines"
	"gearshift/serving/engines/informed"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/work"
)

// Config is how the server treats its clients; see [config.Config].
type Config = config.Config

// AutoModel is the name of the model by which the policy chooses.
const AutoModel = catalogue.AutoModel

// Backend is what answers for one replica; see [config.Backend].
type Backend = config.Backend

// Options is what a Server is made of.
type Options struct {
	Config Config
	Router work.Router
	// Backends of the replicas, in the table's order.
	Backends []Backend
	// Clock is the wall clock if nil.
	Clock work.Clock
	// Log gets nothing if nil.
	Log *slog.Logger
	// Version is that of the program; empty if it has none.
	Version string
	// Watchers are called with each routed request, in this order.
	Watchers []Watcher
	// Observers are called with each request to an endpoint that routes, in this order.
	Observers []Observer
	// Tracer makes the spans of requests. Nil: there are none, and what a client
	// sends of a trace's context passes through.
	Tracer trace.Tracer
	// Modules bring endpoints and metrics of their own, in this order.
	Modules []Module
	// AdminToken is what the admin API asks for; empty refuses its actions.
	AdminToken string
	// FleetToken is what agents of engines show to the router, and the router to their engines; empty
	// refuses agents.
	FleetToken string
	// OutputTokens is the mean length of an answer; zero is unknown. It bounds how
	// long a request may wait; see [config.Overload].
	OutputTokens float64
	// Memory is what the process may use, in bytes, where the configuration does not
	// say; zero is unknown.
	Memory int64
	// Files is how many the process may have open; zero is unknown.
	Files int
	// Drift compares live answers with the replicas' profiles, and belongs to the
	// server from then on. Nil: they are not compared.
	Drift *drift.Monitor
	// Reloader has the scenario's file and the policies. Without one, only the files that
	// the configuration names are read again.
	Reloader Reloader
	// Objective reports what the policy of a name was trained for; empty if that is mean
	// utility, or unknown. It is called from any goroutine. Nil: no policy's is shown.
	Objective func(policy string) string
	// Busy, if not nil, is told what replicas answer, and what engines say of their load.
	Busy *signals.Busy
	// Balancer is the router's, if it chooses by what replicas say of their load. Nil: it does not.
	Balancer *informed.Balancer
	// Modality has the models whose inputs are chosen for each request of a job.
	Modality jobs.Config
}

// Watcher is called with a routed request once its work is over, however it ended, and
// its place is free. It is called from any goroutine, and must not wait.
type Watcher interface {
	Ended(w *work.Work, r work.Result)
}

// Server is the OpenAI-compatible endpoint. It is ready once made, and until
// the context of Serve ends.
type Server struct {
	config    Config
	router    work.Router
	table     *fleet.Table
	backends  []Backend
	clock     work.Clock
	log       *slog.Logger
	adapter   *work.Adapter
	metrics   *metrics.Requests
	engines   *engines.Engines
	health    *engines.Controller
	reply     *proxy.Writer
	proxy     *proxy.Proxy
	feed      *informed.Feed
	balancer  *informed.Balancer // nil if the balancer needs no signals
	instance  uint32             // of the process, as its load says it
	contexts  *contextLengths
	leases    *admission.LeaseManager
	jobs      *jobs.Service
	queue     *admission.Queue
	kept      *proxy.Responses
	watchers  []Watcher
	engine    *gin.Engine
	cleaned   http.Handler // the engine, for paths as clients write them
	operators *operators
	drain     drain
	memory    *admission.Memory
	clients   *admission.Connections
	running   atomic.Pointer[config.Settings] // what may change while it runs
	loader    config.Loader
	gate      *access.Gate
	catalogue *catalogue.Catalogue
	overview  *overview.Overview
	reloader  Reloader // may be nil
	reloads   *reloads
	trials    *trial.Trials

	reloading sync.Mutex // one order at a time

	observers []Observer
	version   string
	tracer    trace.Tracer           // nil if nothing is traced
	added     []route                // the modules' endpoints
	known     known                  // of the clients' endpoints
	adminAddr atomic.Pointer[string] // of the admin listener, once it serves

	draining   atomic.Bool
	onFallback atomic.Bool // the last choice was a fallback
}

// New makes a Server.
func New(o Options) (*Server, error) {
	s, err := bare(&o)
	if err == nil {
		err = s.assemble(&o)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make server: %w", err)
	}
	s.engines.Start()
	return s, nil
}

// bare makes a server of its options, without its parts.
func bare(o *Options) (*Server, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		config: o.Config, router: o.Router, table: o.Router.Table(),
		backends: slices.Clone(o.Backends),
		clock:    o.Clock, log: o.Log, watchers: slices.Clone(o.Watchers),
		observers: slices.Clone(o.Observers), version: o.Version, tracer: o.Tracer,
		drain: drain{ordered: make(chan struct{})}, reloader: o.Reloader,
	}
	if len(s.backends) != len(s.table.Replicas) {
		return nil, fmt.Errorf("%d backends for %d replicas", len(s.backends), len(s.table.Replicas))
	}
	for i := range s.backends {
		b := &s.backends[i]
		b.Model = cmp.Or(b.Model, s.table.Variants[s.table.Replicas[i].Variant].Name)
	}
	if s.table.VariantIndex(AutoModel) >= 0 {
		return nil, fmt.Errorf("a variant is named %q, which stands for the policy's choice", AutoModel)
	}
	if s.clock == nil {
		s.clock = work.WallClock()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// assemble makes the parts of the server, in an order in which each has those that it needs.
func (s *Server) assemble(o *Options) (err error) {
	started := s.clock()
	s.reply = s.newReply()
	s.adapter = work.NewAdapter(s.router, s.clock)
	s.metrics = metrics.New(metrics.Options{
		Router: s.router, Clock: s.clock, Reasons: admission.Reasons, Failures: proxy.Reasons,
		Waiting: func() ([]string, []int) { return s.queue.Lengths() },
	})
	s.contexts = newContexts(s.table, s.backends)
	s.catalogue = catalogue.New(catalogue.Options{
		Table: s.table, DefaultTask: func() int { return s.running.Load().Task }, Fail: s.fail, Jobs: jobModels(&o.Modality), Context: s.contexts.ofVariant,
	})
	s.loader = config.Loader{Table: s.table, CheckGrants: s.catalogue.CheckGrants, Rules: browserRules}
	s.trials = s.newTrials(*o)
	if err := s.begins(); err != nil {
		return err
	}
	s.balancer, s.instance = o.Balancer, max(1, rand.Uint32())
	s.feed = s.newFeed(o.Balancer)
	s.watchers = append(slices.Clip(s.watchers), lessons{s.feed})
	if o.Busy != nil {
		o.Busy.Said = s.feed.Known
		s.observers = append(s.observers, answers{o.Busy, s.clock})
	}
	s.watchEngines(o.Drift)
	s.kept = proxy.NewResponses(s.clock)
	s.memory = admission.NewMemory(&s.config, o.Memory, s.log)
	trusted := func(addr string) bool { return s.running.Load().Proxies.Trust(addr) }
	s.clients = admission.NewConnections(&s.config, o.Memory, o.Files, trusted, s.log)
	s.metrics.Registry.MustRegister(s.memory.Metrics(), s.clients.Metrics(), s.feed.Metrics())
	s.proxy = s.newProxy(trusted)
	s.overview = overview.New(overview.Options{
		Router: s.router, Metrics: s.metrics, Engines: s.engines, Held: s.adapter.Held, Context: s.contexts.of, Signals: s.statuses,
		Jobs:     func() []jobs.Queue { return s.jobs.Queues() },
		Draining: s.draining.Load, Fail: s.fail, Clock: s.clock, Started: started,
	})
	if err := s.join(o.Modules); err != nil {
		return err
	}
	s.observers = append(s.observers, newAccessLog(s.settings, s.log, s.clock))
	s.leases = admission.NewLeases(admission.LeaseOptions{
		Table: s.table, Settings: s.settings, Output: o.OutputTokens, Settle: s.settle, Fail: s.fail,
		NewID: randomID, Clock: s.clock, Log: s.log,
	})
	s.metrics.Registry.MustRegister(s.leases.Metrics()...)
	s.queue = admission.NewQueue(s.settings, s.router, o.OutputTokens, s.clock, s.metrics.Queue)
	s.metrics.Registry.MustRegister(metrics.Prompts(s.adapter.Prompts, s.table))
	if err := s.serveJobs(o); err != nil {
		return err
	}
	if s.operators, err = s.newOperators(o.AdminToken, o.FleetToken); err != nil {
		return err
	}
	return s.makeRouters()
}

// Engines are the engines behind the replicas, for modules with a controller of their own.
func (s *Server) Engines() *engines.Engines { return s.engines }

// Clock is the server's.
func (s *Server) Clock() work.Clock { return s.clock }

// Ending is closed once the server is to end, so that handlers which would go on for ever do too.
func (s *Server) Ending() <-chan struct{} { return s.drain.ordered }

// Handler serves all endpoints.
func (s *Server) Handler() http.Handler { return s.cleaned }

// Listen takes the configured address, for Serve.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	return listen(ctx, s.config.Addr)
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // the rest of it repeats the address
	}
	if bad := (*net.AddrError)(nil); errors.As(err, &bad) {
		return nil, fmt.Errorf("cannot listen on %q: %s; want HOST:PORT or :PORT, such as 127.0.0.1:8080", addr, bad.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %q: %w", addr, err)
	}
	return l, nil
}

// asking bounds the wait for engines that do not say what they have loaded.
const asking = 500 * time.Millisecond

// awaitStates waits until engines have said what they have loaded: where an earlier run has moved models,
// the scenario does not know it. Clients that connect meanwhile wait.
func (s *Server) awaitStates(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	s.engines.Asked(ctx)
}

// Serve accepts connections until the context ends, or Drain is called. Then it
// reports not ready and has each connection close after its next answer, waits out
// Config.ReadyGrace, takes no more connections, waits for the requests in flight as long
// as Config.DrainTimeout allows, and cuts off the rest. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := s.httpServer(s.cleaned)
	s.clients.Watch(server)
	defer s.Close()
	s.awaitStates(ctx)
	failed := make(chan error, 1)
	encrypted := s.config.TLS.On()
	end := func() { _ = l.Close() }
	if graceful := admission.NewDrainListener(l); graceful != nil {
		l, end = graceful, graceful.End
	}
	go func() {
		failed <- config.ServeTLS(server, s.clients.Limited(l, encrypted, s.settings().RetryAfter), s.certificate())
	}()
	s.log.Info("listening", "addr", l.Addr().String(), "policy", s.router.PolicyName(), "tls", encrypted)
	s.tellKeys()
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watch(watching) })
	keeping, unkeep := context.WithCancel(context.WithoutCancel(ctx)) // until the last request has ended
	watcher.Go(func() {
		access.KeepUsage(keeping, s.config.UsageFile, func() *access.Ring { return s.running.Load().Ring }, s.log)
	})
	defer watcher.Wait()
	defer unkeep()
	defer s.leases.Close() // which counts among what keys have used
	defer unwatch()
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve on %q: %w", l.Addr(), err)
	case <-ctx.Done():
	case <-s.drain.ordered:
	}
	return s.retreat(ctx, server, end, failed)
}

// Close ends the leases that callers of the route endpoint still hold. Serve
// does so itself.
func (s *Server) Close() {
	s.draining.Store(true)
	s.queue.Close()
	s.leases.Close()
	s.jobs.Close()
	s.engines.Stop()
	s.feed.Close()
}
