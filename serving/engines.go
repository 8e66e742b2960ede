package serving

import (
	"context"
	"net"
	"net/http"
	"net/url"

	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/router/signals"
	"gearshift/serving/gauges"
	"gearshift/serving/probes"
)

// Prober is what a [Backend]'s transport may be as well: a server that can be
// asked for its health and its gauges.
type Prober interface {
	// Get asks for a path of the server's own, on a new connection. The caller
	// closes the body.
	Get(ctx context.Context, path string) (*http.Response, error)
	// Base is the server's root.
	Base() *url.URL
}

// Forwarder is what a [Backend]'s transport may be as well: one that knows whose
// credentials its server sees.
type Forwarder interface {
	// ForwardsAuthorization says that they are the client's own.
	ForwardsAuthorization() bool
}

// engineSeed sets the jitter of probes and scrapes apart from other chance.
const engineSeed = 0x656e67696e6573

// server is one that several replicas may share.
type server struct {
	Prober
	replicas []int
	models   []string
}

// servers groups the replicas by the server that they are behind.
func (s *Server) servers() []server {
	var list []server
	index := map[string]int{}
	for i, b := range s.backends {
		p, ok := b.Transport.(Prober)
		if !ok {
			continue
		}
		base := placeOf(p)
		n, ok := index[base]
		if !ok {
			n = len(list)
			index[base] = n
			list = append(list, server{Prober: p})
		}
		list[n].replicas, list[n].models = append(list[n].replicas, i), append(list[n].models, s.modelOf(i))
	}
	return list
}

// placeOf identifies a server: those below one root may have lists of their own.
func placeOf(p Prober) string {
	if at, ok := p.(interface{ API() *url.URL }); ok {
		return at.API().String()
	}
	return p.Base().String()
}

// addressOf is where the backend is connected to, host:port, and the host alone;
// both are empty of one within this process.
func addressOf(b Backend) (address, host string) {
	p, ok := b.Transport.(Prober)
	if !ok {
		return "", ""
	}
	base := p.Base()
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	return net.JoinHostPort(base.Hostname(), port), base.Hostname()
}

// watchEngines makes what knows the engines: their health and their gauges. It
// begins with [Server.startEngines].
func (s *Server) watchEngines() {
	addresses := make([]string, len(s.backends))
	hosts := make([]string, len(s.backends))
	for i, b := range s.backends {
		addresses[i], hosts[i] = addressOf(b)
	}
	c := s.config.Watching()
	k := &keeper{
		monitor: health.New(c, s.router.Ledger(), addresses, engineSeed),
		clock:   s.clock, tell: s.healthChanged, waiting: s.owed,
		siblings: make([][]int, len(s.backends)),
	}
	for i := range k.siblings {
		for j := range k.siblings {
			if s.table.Replicas[i].Host == s.table.Replicas[j].Host || hosts[i] != "" && hosts[i] == hosts[j] {
				k.siblings[i] = append(k.siblings[i], j)
			}
		}
	}
	var targets []probes.Target
	var sources []gauges.Source
	for _, one := range s.servers() {
		targets = append(targets, probes.Target{Server: one, Replicas: one.replicas, Models: one.models})
		sources = append(sources, gauges.Source{Server: one, Replicas: one.replicas, Models: one.models, Loaded: s.loaded})
	}
	metrics := newEngineMetrics(s)
	if len(targets) > 0 {
		k.prober = probes.New(c, targets, engineSeed, func(t probes.Target, f health.Finding) {
			metrics.probed(t.Replicas, f)
			k.probed(t.Replicas, f)
		})
		k.prober.OnList = func(t probes.Target, notes []string, contexts []int) {
			for n, i := range t.Replicas {
				if !s.loaded(i) {
					notes[n] = "" // that it lacks a model that is not loaded is no fault of it
				}
				k.listed(i, notes[n])
				s.contexts.report(i, contexts[n])
			}
		}
	}
	s.signals = signals.New(s.router.Ledger())
	s.scraper = gauges.New(s.config.Gauges, s.signals, sources, s.counts, s.clock, engineSeed, s.gaugesRead)
	s.health, s.adapter.sign = k, k.monitor.Sign
	s.engineMetrics = metrics
	s.books.registry.MustRegister(metrics)
}

// loaded reports whether the replica is placed where it takes requests.
func (s *Server) loaded(replica int) bool { return s.router.Ledger().Placed(replica) == fleet.Up }

// startEngines begins to watch, until stopEngines.
func (s *Server) startEngines() {
	s.health.hark(s.config.Health.SilentAfter)
	s.lifecycle.start()
	s.asking.Lock()
	defer s.asking.Unlock()
	s.ask()
}

func (s *Server) stopEngines() {
	s.lifecycle.stop()
	s.health.close()
	s.asking.Lock()
	defer s.asking.Unlock()
	s.hush()
	s.silent = true
}

// followEngines watches the engines as the configuration now has it. Probes and
// readings under way are cut off, and begin anew.
func (s *Server) followEngines(before, now *Config) {
	if before.Watching() == now.Watching() && before.Gauges == now.Gauges {
		return
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.silent {
		return
	}
	s.hush()
	s.health.set(now.Watching())
	if s.health.prober != nil {
		s.health.prober.Set(now.Watching())
	}
	s.scraper.Set(now.Gauges)
	s.ask()
}

// ask begins probes and readings of gauges, until hush. The caller holds s.asking.
func (s *Server) ask() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopAsking = cancel
	if s.health.prober != nil {
		s.health.prober.Start(ctx)
	}
	s.scraper.Start(ctx)
	if s.drift != nil {
		s.fading.Go(func() { s.fadeDrift(ctx) })
	}
}

// hush returns once nobody asks any more. The caller holds s.asking.
func (s *Server) hush() {
	s.stopAsking()
	if s.health.prober != nil {
		s.health.prober.Wait()
	}
	s.scraper.Wait()
	s.fading.Wait()
}

// owed is how many requests wait for the replicas' answers, and how many more callers
// of the route endpoint dispatch themselves, which are not seen to progress.
func (s *Server) owed(work, held []int) {
	s.leases.set.Count(held)
	for i := range work {
		work[i] = max(0, s.router.Ledger().InFlightOn(i)-held[i])
	}
}

// counts are the router's own requests on the replica, and the tokens they hold.
func (s *Server) counts(replica int) signals.Count {
	return signals.Count{InFlight: s.router.Ledger().InFlightOn(replica), Held: s.adapter.Held(replica)}
}

// healthChanged tells of a replica's new state.
func (s *Server) healthChanged(c health.Change) {
	if c.Ejects() {
		s.abilities.Forget(c.Replica) // another engine may come back
	}
	name := s.table.Replicas[c.Replica].Name
	s.engineMetrics.changed(c)
	switch {
	case c.Why == health.Unlisted && c.Note != "":
		s.log.Warn("replica kept out: its server does not have its model", "replica", name, "why", c.Note)
	case c.Spared:
		s.log.Warn("replica fails, and stays: too many are out", "replica", name, "why", c.Why)
	case c.Lost:
		if n := s.pending[c.Replica].abandon(); n > 0 {
			s.log.Warn("replica is gone: what it has not begun to answer is tried elsewhere", "replica", name, "requests", n)
		}
	case c.Ejects():
		s.log.Warn("replica ejected", "replica", name, "why", c.Why, "cooldown", c.Cooldown)
	case c.To == health.HalfOpen:
		s.log.Info("replica on trial", "replica", name, "ejected_for", c.Why)
	case c.To == health.SlowStart:
		s.log.Info("replica comes back", "replica", name, "slow_start", s.settings().Health.SlowStart)
	default:
		s.log.Info("replica up again", "replica", name)
	}
}

// gaugesRead tells whether an engine's gauges can be gone by.
func (s *Server) gaugesRead(source gauges.Source, fresh bool, err error) {
	name := s.table.Replicas[source.Replicas[0]].Name
	if fresh {
		s.log.Info("engine gauges are read", "replica", name)
		return
	}
	s.log.Warn("engine gauges are stale or missing: the router goes by its own counts", "replica", name, "error", err)
}
