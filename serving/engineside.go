package serving

import (
	"gearshift/router/drift"
	"gearshift/serving/config"
	"gearshift/serving/engines"
)

// Forwarder is what a [Backend]'s transport may be as well: one that knows whose
// credentials its server sees.
type Forwarder interface {
	// ForwardsAuthorization says that they are the client's own.
	ForwardsAuthorization() bool
}

// watchEngines makes what watches the engines, and has them report to the server.
func (s *Server) watchEngines(m *drift.Monitor) {
	list := make([]engines.Backend, len(s.backends))
	for i, b := range s.backends {
		list[i] = engines.Backend{Transport: b.Transport, Model: s.modelOf(i), Lifecycle: b.Lifecycle}
	}
	c := &s.config
	s.engines = engines.New(engines.Options{
		Ledger: s.router.Ledger(), Backends: list, Health: c.Watching(), Gauges: c.Gauges,
		Lifecycle: c.Lifecycle.Config, DrainTimeout: c.Lifecycle.DrainTimeout,
		Drift: m, Correct: corrects(c), Clock: s.clock, Log: s.log,
		Hooks: engines.Hooks{
			Held:     s.adapter.Held,
			Leased:   func(leased []int) { s.leases.set.Count(leased) },
			Lost:     func(replica int) int { return s.pending[replica].abandon() },
			Replaced: func(replica int) { s.abilities.Forget(replica) },
			Context:  s.contexts.report,
		},
	})
	s.health = s.engines.Controller()
	s.adapter.Sign, s.adapter.Drift = s.engines.Sign, m
	s.metrics.Registry.MustRegister(s.engines.Metrics()...)
}

// corrects says whether forecasts use the slowness of replicas. Among several routers none
// does: the prompts of the others, which it does not know of, lengthen what it measures.
func corrects(c *config.Config) bool { return c.Drift.Correct && c.Routers == 1 }
