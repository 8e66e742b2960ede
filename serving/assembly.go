package serving

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admin/overview"
	"gearshift/serving/admin/trial"
	"gearshift/serving/admission"
	"gearshift/serving/config"
	"gearshift/serving/engines"
	"gearshift/serving/experience"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// This file makes the parts of a server. Each gets what it needs of the others: where that is made later, by a
// function.

// Forwarder is what a [Backend]'s transport may be as well: one that knows whose
// credentials its server sees.
type Forwarder interface {
	// ForwardsAuthorization says that they are the client's own.
	ForwardsAuthorization() bool
}

// assemble makes the parts of the server, in an order in which each has those that it needs.
func (s *Server) assemble(o *Options) error {
	started := s.clock()
	s.drain = &drain{settings: s.running.Config, log: s.log, ledger: s.router.Ledger(), ordered: make(chan struct{})}
	s.metrics = metrics.New(metrics.Options{
		Router: s.router, Clock: s.clock, Reasons: admission.Reasons, Failures: proxy.Reasons,
		Waiting: func() ([]string, []int) { return s.queue.Lengths() },
	})
	s.observe(o)
	s.contexts = newContexts(s.router.Table(), s.backends)
	s.catalogue = catalogue.New(catalogue.Options{
		Table: s.router.Table(), DefaultTask: func() int { return s.running.Load().Task }, Fail: s.reply.Fail, Jobs: o.Modality.Models, Context: s.contexts.ofVariant,
	})
	s.trials = newTrials(s, o)
	s.reloads = &reloads{
		running: &s.running, reloader: o.Reloader, router: s.router, trials: s.trials, log: s.log, follow: s.follow,
		loader: config.Loader{Table: s.router.Table(), CheckGrants: s.catalogue.CheckGrants, Rules: browserRules},
	}
	if err := s.reloads.begin(&s.config, s.metrics.Registry); err != nil {
		return err
	}
	s.reach(o)
	if s.predictors != nil {
		s.metrics.Registry.MustRegister(s.predictors.Metrics()...)
	}
	s.overview = overview.New(overview.Options{
		Router: s.router, Metrics: s.metrics, Engines: s.engines, Held: s.adapter.Held, Context: s.contexts.of, Signals: s.loads.statuses,
		Jobs:     func() []jobs.Queue { return s.jobs.service.Queues() },
		Draining: s.drain.draining.Load, Fail: s.reply.Fail, Clock: s.clock, Started: started, Tuning: o.Tuning,
	})
	if err := s.join(o.Modules); err != nil {
		return err
	}
	s.accounts.observers = append(s.accounts.observers, &accessLog{settings: s.running.Config, log: s.log, clock: s.clock, lines: config.NewLogLimiter()})
	if err := s.answer(o); err != nil {
		return err
	}
	var err error
	if s.guard, err = s.newGuard(o); err != nil {
		return err
	}
	s.orders = s.newOrders()
	s.metrics.Registry.MustRegister(s.orders.Metrics())
	return s.makeRouters()
}

// observe makes what sees each request, and what writes to its client.
func (s *Server) observe(o *Options) {
	s.known = known{}
	s.accounts = &accounts{
		table: s.router.Table(), ledger: s.router.Ledger(), running: &s.running, tracer: o.Tracer,
		observers: slices.Clone(o.Observers), known: s.known,
	}
	s.settler = &settler{s.metrics, slices.Clone(o.Watchers)}
	s.reply = &proxy.Writer{
		Settings: s.running.Config, Ending: s.drain.draining.Load,
		Failed: func(c *gin.Context, code string) {
			if a := accountOf(c.Request.Context()); a != nil {
				a.Code = code
			}
		},
		Refused: func(c *gin.Context, status int) {
			s.metrics.Refused(status)
			if a := accountOf(c.Request.Context()); a != nil {
				a.faulty = true
			}
		},
	}
}

// reach makes what leads to the replicas, and what bounds the way there.
func (s *Server) reach(o *Options) {
	s.adapter = work.NewAdapter(s.router, s.clock)
	s.queue = admission.NewQueue(s.running.Config, s.router, o.OutputTokens, s.clock, queueEvents{s.metrics.Queue, s.metrics})
	s.loads = newLoads(o.Balancer, s.router, s.backends, &s.config, s.clock, s.log, s.adapter.Held, s.queue)
	s.accounts.loads = s.loads
	s.settler.watchers = append(s.settler.watchers, watching(s.loads.learn), watching(func(w *work.Work, r work.Result) {
		if r.Judged && !w.Ruled() { // no policy chose a variant that the request or its class names
			s.trials.Ended(trial.Ended{Arrival: w.Request.Arrival, Trial: w.Trial, Reported: r.Reported, Met: r.Met, Utility: r.Utility})
		}
	}))
	if o.Busy != nil {
		o.Busy.Said = s.loads.Known
		s.accounts.observers = append(s.accounts.observers, answers{o.Busy, s.clock})
	}
	if o.Feedback != nil {
		s.settler.watchers = append(s.settler.watchers, remembered{o.Feedback})
	}
	s.engines = s.newEngines(o.Drift, o.Acts)
	s.reloads.engines = s.engines
	s.queue.Holds(router.Holder{Ledger: s.router.Ledger(), Wakes: func(i int) bool { return s.engines.Driven(i) != "" }, Nudge: s.engines.Nudge})
	s.adapter.Sign, s.adapter.Drift = s.engines.Sign, o.Drift
	s.memory = admission.NewMemory(s.running.Config, o.Memory, s.log)
	trusted := func(addr string) bool { return s.running.Load().Proxies.Trust(addr) }
	s.clients = admission.NewConnections(&s.config, o.Memory, o.Files, trusted, s.log)
	s.drain.clients = s.clients
	s.responses = &responses{table: s.router.Table(), backends: s.backends, kept: proxy.NewResponses(s.clock), catalogue: s.catalogue, queue: s.queue, reply: s.reply}
	s.proxy = s.newProxy(trusted, remembered{o.Feedback}.answered)
	s.responses.proxy = s.proxy
	s.metrics.Registry.MustRegister(append(s.engines.Metrics(), s.trials.Metrics(), s.memory.Metrics(), s.clients.Metrics(), s.loads.Metrics(), metrics.Prompts(s.adapter.Prompts, s.router.Table()))...)
}

// answer makes what answers requests.
func (s *Server) answer(o *Options) error {
	table := s.router.Table()
	leases := admission.NewLeases(admission.LeaseOptions{
		Table: table, Settings: s.running.Config, Output: o.OutputTokens, Settle: s.settler.settle,
		NewID: randomID, Clock: s.clock, Log: s.log,
	})
	s.metrics.Registry.MustRegister(leases.Metrics()...)
	s.middleware = &middleware{s.log, s.reply, s.clients, s.memory, s.responses, &passer{s.adapter, s.router.Ledger(), s.backends, s.reply, s.clock}}
	s.gate = newGate(s)
	s.metrics.Registry.MustRegister(s.gate.Metrics()...)
	s.receiver = &receiver{s.running.Config, s.clock, s.memory, s.reply}
	s.interpreter = &interpreter{s.running.Config, s.catalogue, s.predictors, o.Feedback, s.adapter.Prompts, s.config.Affinity}
	s.admitter = &admitter{
		settings: s.running.Config, clock: s.clock, log: s.log, ledger: s.router.Ledger(), reply: s.reply, metrics: s.metrics,
		adapter: s.adapter, queue: s.queue, contexts: s.contexts, loads: s.loads, proxy: s.proxy, engines: s.engines, predictors: s.predictors,
	}
	s.completions = &completions{s.receiver, s.interpreter, s.responses, s.admitter, s.proxy, s.settler, newShadows(s, o)}
	s.route = &leaseEndpoint{s.receiver, table, s.interpreter, s.queue, s.admitter, s.settler, leases, s.engines.Controller()}
	s.feedback = &feedbackEndpoint{s.receiver, table, s.queue, o.Feedback, s.predictors.Scores, s.predictors.Scored}
	service, err := newJobs(s, o)
	if err != nil {
		return err
	}
	s.jobs = &jobEndpoints{s.receiver, table, s.metrics, s.catalogue, s.queue, s.proxy, service}
	s.classifier = &classifier{s.completions, table, s.jobs}
	s.home = &home{version: o.Version, modules: s.added, encrypted: s.config.Admin.TLS.On()}
	return nil
}

// newProxy makes what sends requests to replicas. Trusts reports whether an address is a
// trusted proxy's, and answered is called with those whose answers may be scored.
func (s *Server) newProxy(trusts func(addr string) bool, answered func(*work.Work, []byte)) *proxy.Proxy {
	list, ways := slices.Clone(s.backends), make([]http.RoundTripper, len(s.backends))
	for i := range list {
		ways[i] = list[i].Transport
		list[i].Transport = countedTransport{proxy.Carriable(list[i].Transport), i}
	}
	return proxy.New(proxy.Options{
		Table: s.router.Table(), Backends: list, Ways: ways, Settings: s.running.Config, Clock: s.clock, Log: s.log,
		Reply: s.reply, Health: s.engines.Controller(), Metrics: s.metrics, Memory: s.memory.Answers, Loads: s.loads,
		Prompts: s.adapter.Prompts, Events: s.adapter.Events, Context: s.contexts.of, Unlisted: s.engines.Unlisted, Keep: s.responses.kept.Keep, Answered: answered, Trusts: trusts, ShowsQuality: s.predictors.Shows,
		Keyed: func(replica int) bool { // its server sees the router's own key, or none
			forwarder, ok := s.backends[replica].Transport.(Forwarder)
			return ok && !forwarder.ForwardsAuthorization()
		},
	})
}

// newEngines makes what watches the engines.
func (s *Server) newEngines(m *drift.Monitor, acts func() bool) *engines.Engines {
	c := &s.config
	return engines.New(engines.Options{
		Ledger: s.router.Ledger(), Backends: s.backends, Health: c.Watching(), Gauges: c.Gauges,
		Lifecycle: c.Lifecycle.Config, DrainTimeout: c.Lifecycle.DrainTimeout,
		Drift: m, Correct: corrects(c), Doubt: doubts(c), Doubted: s.router.Doubt, Clock: s.clock, Log: s.log, Acts: acts,
		Hooks: engines.Hooks{
			Held:     s.adapter.Held,
			Leased:   func(leased []int) { s.route.leases.Count(leased); s.adapter.AddHidden(leased) },
			Lost:     func(replica int) int { return s.proxy.Lost(replica) },
			Refused:  func(replica int) { s.proxy.Refused(replica) },
			Found:    func(replica int) { s.proxy.Found(replica) },
			Replaced: func(replica int) { s.proxy.Forget(replica); s.loads.Forget(replica) },
			Context:  s.contexts.report,
			Loads:    s.loads.Feed,
		},
	})
}

// queueEvents receives what the queue reports.
type queueEvents struct {
	*metrics.Queue
	requests *metrics.Requests
}

// Held implements [admission.Events].
func (e queueEvents) Held(variant int, result string, d time.Duration) {
	e.requests.Held(variant, result, d)
}

// corrects says whether forecasts use the slowness of replicas. Among several routers none
// does: the prompts of the others, which it does not know of, lengthen what it measures.
func corrects(c *config.Config) bool { return c.Drift.Correct && c.Routers == 1 }

// doubts reports whether policies are doubted while forecasts are off; see corrects for several routers.
func doubts(c *config.Config) bool { return c.Drift.Doubt && c.Routers == 1 }

// newJobs makes what plans jobs. The proxy sends their batches.
func newJobs(s *Server, o *Options) (*jobs.Service, error) {
	table, ledger := s.router.Table(), s.router.Ledger()
	service, err := jobs.New(o.Modality, jobs.Options{
		Clock: s.clock, Memory: s.memory.Answers,
		Send: func(ctx context.Context, replica int, task string, b *proxy.Batch) (jobs.Sent, error) {
			return s.Batches().Ask(ctx, replica, table.TaskIndex(task), planned, s.clock()+s.running.Config().Timeouts.Total, b)
		},
		Takes: func(replica int) bool { return ledger.State(replica) == fleet.Up },
		Host:  func(replica int) string { return table.Hosts[table.Replicas[replica].Host].Name },
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJobs, err)
	}
	if service.On() {
		err = s.metrics.Registry.Register(service)
	}
	return service, err
}

// follow has the parts take over the settings in force that keep what they derived from them.
func (s *Server) follow() {
	c := s.running.Config()
	s.queue.Follow()
	s.memory.Follow()
	s.clients.Follow(c)
	s.proxy.Follow()
	s.engines.Follow(c.Watching(), c.Gauges)
	s.engines.Corrects(corrects(c))
	s.engines.Doubts(doubts(c))
	s.loads.Set(c.Signals)
}

// Status is what the server has done so far, and how its fleet is.
func (s *Server) Status() overview.Status { return s.overview.Status() }

// Policies reports which policy is in charge, which is on trial, and how they compare.
func (s *Server) Policies() trial.Policies { return s.trials.Policies() }

// newTrials makes what carries out orders about policies.
func newTrials(s *Server, o *Options) *trial.Trials {
	of := trial.Options{
		Table: s.router.Table(), InCharge: s.router.PolicyName, Policies: policySetOf(s.router), Objective: o.Objective,
		Config: func() trial.Config { return s.running.Config().Trial }, Clock: s.clock, Log: s.log,
	}
	if of.Objective == nil {
		of.Objective = func(string) string { return "" }
	}
	if o.Reloader != nil {
		of.Source = o.Reloader
	}
	return trial.New(of)
}

// policySetOf is the router's policies, also of one within a [recording.Recorder]; nil if they cannot
// be changed.
func policySetOf(r work.Router) trial.PolicySet {
	if recorder, ok := r.(*experience.Recorder); ok {
		r = recorder.Router
	}
	p, _ := r.(trial.PolicySet)
	return p
}

// exposed are the headers of an answer that a page may read.
var exposed = []string{
	proxy.RequestID, "Retry-After", "Retry-After-Ms",
	proxy.Variant, proxy.Replica, headerPolicy, proxy.Overhead, headerFallback, proxy.Attempts, proxy.Quality, proxy.QualityBest, proxy.QualitySure, headerExplain, access.HeaderReason, headerWaited, headerStrategy, inference.HeaderLength,
}

func browserRules(c *Config) *access.PageRules {
	hosts := slices.Clone(c.Hosts)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name) // which may stand for a loopback address in /etc/hosts
	}
	return access.NewPageRules(c.CORS, exposed, hosts)
}

// newGate makes what lets clients in.
func newGate(s *Server) *access.Gate {
	return access.New(access.Options{
		Rules: func() *access.PageRules { return s.running.Load().Browser },
		Ring:  func() *access.Ring { return s.running.Load().Ring },
		Open: func(c *gin.Context) bool { // to machines that watch this one
			path := c.Request.URL.Path
			if path == metricsPath {
				return s.running.Config().Metrics == config.MetricsOpen
			}
			return s.known[path].open || s.known[c.FullPath()].open
		},
		Free:       func(c *gin.Context) bool { return s.known[c.FullPath()].free },
		RetryAfter: func() time.Duration { return s.running.Config().RetryAfter },
		Refuse: func(c *gin.Context, status int, e wire.Error) {
			s.reply.Refuse(c, &wire.Refusal{Status: status, Error: e})
		},
		NotFound: s.middleware.unknownPath, Clock: s.clock,
	})
}

// clientMetrics are the metrics on the clients' port, unless they are off there.
func clientMetrics(settings func() *Config, shown http.Handler, unknown gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		if settings().Metrics == config.MetricsOff {
			unknown(c)
			return
		}
		shown.ServeHTTP(c.Writer, c.Request)
	}
}
