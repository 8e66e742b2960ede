// Package serving is the HTTP side of the router: an OpenAI-compatible server
// that sends each request to the replica that the router chose, and passes the
// answer back as it comes.
package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"gearshift/router/drift"
	"gearshift/router/signals"
	"gearshift/serving/access"
	"gearshift/serving/admin"
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
	"gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
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
	// Tuning returns how a search for rules in the background is going; nil: there is none. It is called from
	// any goroutine.
	Tuning func() *overview.Tuning
	// Acts reports whether this router gives orders to engines, of several that share them. It is called from any
	// goroutine. Nil: always.
	Acts func() bool
	// Busy, if not nil, is told what replicas answer, and what engines say of their load.
	Busy *signals.Busy
	// Balancer is the router's, if it chooses by what replicas say of their load. Nil: it does not.
	Balancer *informed.Balancer
	// Feedback takes scores of answers. Nil: there is no predictor of quality that learns from them.
	Feedback *feedback.Service
	// Predictors predict the quality of answers from prompts. Nil: the rows of tasks hold.
	Predictors *quality.Predictors
	// Modality has the models whose inputs are chosen for each request of a job.
	Modality jobs.Config
}

// Watcher is called with a routed request once its work is over, however it ended, and
// its place is free. It is called from any goroutine, and must not wait.
type Watcher interface {
	Ended(w *work.Work, r work.Result)
}

// Server is the OpenAI-compatible endpoint. It is ready once made, and until
// the context of Serve ends. It joins these parts, none of which knows it.
type Server struct {
	config  Config         // as it was at the start
	running config.Running // what is in force of it
	router  work.Router
	clock   work.Clock
	log     *slog.Logger
	drain   *drain        // ends it in peace
	closing chan struct{} // closed once it takes no more connections
	reloads *reloads      // puts in force what files say now

	// What is known of the replicas.
	backends []Backend
	engines  *engines.Engines // watches them, and has them load and unload
	loads    *loads           // what they say of their load
	contexts *contextLengths  // how long prompts may be there

	// What requests pass, in this order.
	clients     *admission.Connections // bounds connections
	middleware  *middleware            // request IDs, panics, headers' memory, unknown paths
	reply       *proxy.Writer          // writes to clients, from here on
	accounts    *accounts              // what operators see of each request
	gate        *access.Gate           // keys, and pages of other sites
	memory      *admission.Memory      // bounds what requests hold
	receiver    *receiver              // takes in the body
	catalogue   *catalogue.Catalogue   // has what clients may name
	predictors  *quality.Predictors    // of the quality of answers; may be nil
	interpreter *interpreter           // finds out what a request asks for
	queue       *admission.Queue       // has it wait for room
	adapter     *work.Adapter          // has the router choose a replica
	admitter    *admitter              // has the request queued and routed, or refuses it
	proxy       *proxy.Proxy           // sends it to replicas, and the answer back
	settler     *settler               // ends its work

	// What answers them; see clientRoutes.
	completions *completions      // endpoints of the replicas
	responses   *responses        // answers that replicas keep
	classifier  *classifier       // inputs to classify
	jobs        *jobEndpoints     // jobs, and their models
	route       *leaseEndpoint    // decisions for callers that dispatch by themselves
	feedback    *feedbackEndpoint // scores of answers
	home        *home             // "/"
	known       known             // what middleware asks of all endpoints
	added       []route           // the modules' endpoints
	handler     http.Handler

	// The operators' side.
	metrics      *metrics.Requests
	overview     *overview.Overview // status and probes
	trials       *trial.Trials      // of policies
	guard        *admin.Guard       // who may use it
	orders       *admin.Orders      // its endpoints
	adminHandler http.Handler
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
	s := &Server{config: o.Config, router: o.Router, backends: slices.Clone(o.Backends), clock: o.Clock, log: o.Log, closing: make(chan struct{}), predictors: o.Predictors}
	table := s.router.Table()
	if len(s.backends) != len(table.Replicas) {
		return nil, fmt.Errorf("%d backends for %d replicas", len(s.backends), len(table.Replicas))
	}
	for i := range s.backends {
		b := &s.backends[i]
		b.Model = cmp.Or(b.Model, table.Variants[table.Replicas[i].Variant].Name)
	}
	if table.VariantIndex(AutoModel) >= 0 {
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

// Engines are the engines behind the replicas, for modules with a controller of their own.
func (s *Server) Engines() *engines.Engines { return s.engines }

// Clock is the server's.
func (s *Server) Clock() work.Clock { return s.clock }

// Prefers reports whether a class of requests gets a variant first, by the load of the fleet.
func (s *Server) Prefers() bool { return s.running.Config().Prefers() }

// Ending is closed once the server is to end, so that handlers which would go on for ever do too.
func (s *Server) Ending() <-chan struct{} { return s.drain.ordered }

// Closing is closed once the server takes no more connections, so that other listeners for its clients end then. It
// waits for the requests that they have brought.
func (s *Server) Closing() <-chan struct{} { return s.closing }

// Certificate returns that of the clients' port; nil if it is not encrypted.
func (s *Server) Certificate() *tls.Certificate { return s.running.Load().Cert }

// Handler serves all endpoints.
func (s *Server) Handler() http.Handler { return s.handler }

// Listen listens at the configured address, for Serve. If the address is off, no client connects.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	if s.config.Addr == config.AdminOff {
		return newSilence(), nil
	}
	return Listen(ctx, s.config.Addr)
}

// Listen listens at an address.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
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
func awaitStates(ctx context.Context, list *engines.Engines) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	list.Asked(ctx)
}

// Serve accepts connections until the context ends, or Drain is called. Then it
// reports not ready and has each connection close after its next answer, waits out
// Config.ReadyGrace, takes no more connections, waits for the requests in flight as long
// as Config.DrainTimeout allows, and cuts off the rest. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := httpServer(&s.config, s.log, s.handler)
	s.clients.Watch(server)
	defer s.Close()
	awaitStates(ctx, s.engines)
	failed := make(chan error, 1)
	var certificate func() *tls.Certificate
	encrypted := s.config.TLS.On()
	if encrypted {
		certificate = s.Certificate
	}
	end := func() { _ = l.Close() }
	if graceful := admission.NewDrainListener(l); graceful != nil {
		l, end = graceful, graceful.End
	}
	go func() {
		failed <- config.ServeTLS(server, s.clients.Limited(l, encrypted, s.running.Config().RetryAfter), certificate)
	}()
	s.log.Info("listening", "addr", l.Addr().String(), "policy", s.router.PolicyName(), "tls", encrypted)
	s.reloads.tellKeys()
	watching, unwatch := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.reloads.watch(watching, s.config.Watch) })
	keeping, unkeep := context.WithCancel(context.WithoutCancel(ctx)) // until the last request has ended
	watcher.Go(func() {
		access.KeepUsage(keeping, s.config.UsageFile, func() *access.Ring { return s.running.Load().Ring }, s.log)
	})
	defer watcher.Wait()
	defer unkeep()
	defer s.route.leases.Close() // which counts among what keys have used
	defer unwatch()
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve on %q: %w", l.Addr(), err)
	case <-ctx.Done():
	case <-s.drain.ordered:
	}
	return s.drain.retreat(ctx, server, func() { close(s.closing); end() }, failed)
}

// Drain makes Serve end as if its context had: not ready first, then no more
// connections, and an end once the requests in flight are over. It returns at
// once, and a second call changes nothing.
func (s *Server) Drain() { s.drain.order() }

// EndsWithin returns how long Serve and ServeAdmin may take once their contexts end, from then on or, if the server
// takes no more connections, from now on.
func (s *Server) EndsWithin() time.Duration {
	c := s.running.Config()
	within := c.DrainTimeout + settleTime + admin.Grace
	select {
	case <-s.closing:
	default:
		within += c.ReadyGrace
	}
	return within
}

// Close ends the leases that callers of the route endpoint still hold. Serve
// does so itself.
func (s *Server) Close() {
	s.drain.draining.Store(true)
	s.queue.Close()
	s.route.leases.Close()
	s.jobs.service.Close()
	if s.completions.shadows != nil {
		s.completions.shadows.Close()
	}
	s.engines.Stop()
	s.loads.Close()
}
