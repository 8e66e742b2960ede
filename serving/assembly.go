package serving

import (
	"crypto/tls"
	"os"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/serving/access"
	"gearshift/serving/admin/overview"
	"gearshift/serving/admin/trial"
	"gearshift/serving/config"
	"gearshift/serving/engines"
	"gearshift/serving/experience"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// This file joins the server with its rooms: engines, trials of policies, and who may use the
// clients' port, and who sends requests on. Each room gets hooks for what it needs of the others.

// Forwarder is what a [Backend]'s transport may be as well: one that knows whose
// credentials its server sees.
type Forwarder interface {
	// ForwardsAuthorization says that they are the client's own.
	ForwardsAuthorization() bool
}

// keyed reports whether the replica sees the router's own key, or none, in place of the client's.
func (s *Server) keyed(replica int) bool {
	forwarder, ok := s.backends[replica].Transport.(Forwarder)
	return ok && !forwarder.ForwardsAuthorization()
}

// newReply makes what writes to clients.
func (s *Server) newReply() *proxy.Writer {
	return &proxy.Writer{
		Settings: s.settings, Ending: s.draining.Load,
		Failed: func(c *gin.Context, code string) { accountOf(c.Request.Context()).failed(code) },
	}
}

// newProxy makes what sends requests to replicas. Trusts reports whether an address is a
// trusted proxy's.
func (s *Server) newProxy(trusts func(addr string) bool) *proxy.Proxy {
	list := slices.Clone(s.backends)
	for i := range list {
		list[i].Transport = countedTransport{list[i].Transport, i}
	}
	return proxy.New(proxy.Options{
		Table: s.table, Backends: list, Settings: s.settings, Clock: s.clock, Log: s.log,
		Reply: s.reply, Health: s.health, Metrics: s.metrics, Memory: s.memory.Answers, Loads: proxyLoads{s.feed, s},
		Prompts: s.adapter.Prompts, Events: s.adapter.Events,
		Keyed: s.keyed, Context: s.contexts.of, Unlisted: s.engines.Unlisted, Keep: s.kept.Keep, Trusts: trusts,
	})
}

// watchEngines makes what watches the engines, and has them report to the server.
func (s *Server) watchEngines(m *drift.Monitor) {
	c := &s.config
	s.engines = engines.New(engines.Options{
		Ledger: s.router.Ledger(), Backends: s.backends, Health: c.Watching(), Gauges: c.Gauges,
		Lifecycle: c.Lifecycle.Config, DrainTimeout: c.Lifecycle.DrainTimeout,
		Drift: m, Correct: corrects(c), Clock: s.clock, Log: s.log,
		Hooks: engines.Hooks{
			Held:     s.adapter.Held,
			Leased:   func(leased []int) { s.leases.Count(leased) },
			Lost:     func(replica int) int { return s.proxy.Lost(replica) },
			Refused:  func(replica int) { s.proxy.Refused(replica) },
			Found:    func(replica int) { s.proxy.Found(replica) },
			Replaced: func(replica int) { s.proxy.Forget(replica); s.feed.Forget(replica) },
			Context:  s.contexts.report,
			Loads:    s.feed,
		},
	})
	s.health = s.engines.Controller()
	s.adapter.Sign, s.adapter.Drift = s.engines.Sign, m
	s.metrics.Registry.MustRegister(s.engines.Metrics()...)
}

// corrects says whether forecasts use the slowness of replicas. Among several routers none
// does: the prompts of the others, which it does not know of, lengthen what it measures.
func corrects(c *config.Config) bool { return c.Drift.Correct && c.Routers == 1 }

// OrderPolicy carries out an order about policies; see [trial.Trials.Order].
func (s *Server) OrderPolicy(order, ref string, share float64, reason string) (note string, err error) {
	if err := s.trials.Changeable(); err != nil {
		return "", err
	}
	s.reloading.Lock() // orders come one at a time, and reloads
	defer s.reloading.Unlock()
	return s.trials.Order(order, ref, share, reason)
}

// Status is what the server has done so far, and how its fleet is.
func (s *Server) Status() overview.Status { return s.overview.Status() }

// Policies reports which policy is in charge, which is on trial, and how they compare.
func (s *Server) Policies() trial.Policies { return s.trials.Policies() }

// newTrials makes what carries out orders about policies.
func (s *Server) newTrials(o Options) *trial.Trials {
	objective := o.Objective
	if objective == nil {
		objective = func(string) string { return "" }
	}
	return trial.New(trial.Options{
		Table: s.table, InCharge: s.router.PolicyName, Policies: policySetOf(s.router), Source: s.source(),
		Objective: objective, Config: func() trial.Config { return s.settings().Trial }, Clock: s.clock, Log: s.log,
	})
}

// source is the reloader as the source of policies; nil without one.
func (s *Server) source() trial.Source {
	if s.reloader == nil {
		return nil
	}
	return s.reloader
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

// trialWatcher reports to the trials what routed requests have earned. Requests for a
// variant by name are no policy's.
type trialWatcher struct{ *trial.Trials }

// Ended implements [Watcher].
func (t trialWatcher) Ended(w *work.Work, r work.Result) {
	if r.Judged && w.Policy != router.Pinned {
		t.Trials.Ended(trial.Ended{Arrival: w.Request.Arrival, Trial: w.Trial, Reported: r.Reported, Met: r.Met, Utility: r.Utility})
	}
}

// begins reads what the configuration names for the first time.
func (s *Server) begins() error {
	first, err := s.loader.Load(s.config, nil)
	if err == nil {
		err = first.Ring.RestoreUsage(s.config.UsageFile)
	}
	if err != nil {
		return err
	}
	s.running.Store(first)
	s.reloads = newReloads(s.metrics.Registry)
	s.gate = s.newGate()
	s.watchers = append(slices.Clip(s.watchers), trialWatcher{s.trials})
	s.metrics.Registry.MustRegister(append(s.gate.Metrics(), s.drainMetrics(), s.trials.Metrics())...)
	return nil
}

// tellKeys says who may ask.
func (s *Server) tellKeys() {
	ring := s.running.Load().Ring
	switch {
	case ring == nil:
		s.log.Warn("no keys file: anyone who can connect may ask", "to_make_one", "gearshift key new NAME --keys FILE, and serving.keys_file: FILE")
	case len(ring.Holders()) == 0:
		s.log.Warn("the keys file has no keys: nobody may ask", "file", s.running.Load().Config.KeysFile)
	default:
		s.log.Info("API keys are asked for", "keys", len(ring.Holders()))
	}
}

// settings is the configuration in force.
func (s *Server) settings() *Config { return &s.running.Load().Config }

// certificate has the clients' certificate in force; nil without encryption.
func (s *Server) certificate() func() *tls.Certificate {
	if !s.config.TLS.On() {
		return nil
	}
	return func() *tls.Certificate { return s.running.Load().Cert }
}

// exposed are the headers of an answer that a page may read.
var exposed = []string{
	proxy.RequestID, "Retry-After", "Retry-After-Ms",
	proxy.Variant, proxy.Replica, headerPolicy, proxy.Overhead, headerFallback, proxy.Attempts, headerExplain, access.HeaderReason, headerWaited, headerStrategy, inference.HeaderLength,
}

func browserRules(c *Config) *access.PageRules {
	hosts := slices.Clone(c.Hosts)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name) // which may stand for a loopback address in /etc/hosts
	}
	return access.NewPageRules(c.CORS, exposed, hosts)
}

// newGate makes what lets clients in.
func (s *Server) newGate() *access.Gate {
	return access.New(access.Options{
		Rules: func() *access.PageRules { return s.running.Load().Browser },
		Ring:  func() *access.Ring { return s.running.Load().Ring },
		Open:  s.open, Free: func(c *gin.Context) bool { return s.known.free[c.FullPath()] },
		RetryAfter: func() time.Duration { return s.settings().RetryAfter },
		Refuse:     func(c *gin.Context, status int, e wire.Error) { s.refuse(c, &wire.Refusal{Status: status, Error: e}) },
		NotFound:   s.unknownPath, Clock: s.clock,
	})
}

// open reports whether the path needs no key. Those who ask are machines that watch
// this one.
func (s *Server) open(c *gin.Context) bool {
	path := c.Request.URL.Path
	if path == metricsPath {
		return s.settings().Metrics == config.MetricsOpen
	}
	return s.known.open[path] || s.known.open[c.FullPath()]
}

// clientMetrics are the metrics on the clients' port, unless they are off there.
func (s *Server) clientMetrics(c *gin.Context) {
	if s.settings().Metrics == config.MetricsOff {
		s.unknownPath(c)
		return
	}
	s.metrics.Handler().ServeHTTP(c.Writer, c.Request)
}
