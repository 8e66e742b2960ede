// Package tiering runs the controller of tiers within the server: it measures how many requests
// each tier has for what it computes, and divides the next ones so that all have as many.
package tiering

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/tiers"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// Options are what a Module is made of.
type Options struct {
	Ledger *fleet.Ledger
	Tiers  []tiers.Tier
	// Members has the tier of each replica.
	Members    []tiers.Membership
	Controller tiers.Options
	// Balancer sends by the shares.
	Balancer *tiers.Balancer
}

// Module corrects the shares of tiers. It implements [serving.Module], and joins one server.
type Module struct {
	options    Options
	controller *tiers.Controller
	samples    int
	sums       []float64 // of requests for each unit of compute, by tier, since the last correction
	corrects   time.Duration

	mu     sync.Mutex // protects all below
	shares []float64
	used   []float64
}

// sampling is how often requests are counted.
const sampling = 500 * time.Millisecond

// New makes a Module, and has the balancer send by what the tiers compute.
func New(o Options) (*Module, error) {
	m := &Module{options: o, sums: make([]float64, len(o.Tiers)), used: make([]float64, len(o.Tiers))}
	var err error
	if m.controller, err = tiers.New(o.Tiers, o.Controller, m, m); err != nil {
		return nil, fmt.Errorf("cannot divide requests among tiers: %w", err)
	}
	m.Weigh(m.controller.Shares(nil))
	return m, nil
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	s.Engines().Join(m)
	return serving.Parts{Metrics: m.metrics()}
}

// Weigh implements [tiers.Weigher].
func (m *Module) Weigh(shares []float64) {
	m.options.Balancer.Weigh(shares)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shares = append(m.shares[:0], shares...)
}

// Utilisation implements [tiers.Meter]: requests in flight, in the mean of the samples, for each unit
// of compute. Tiers that are slower than they say have more of them.
func (m *Module) Utilisation(tier int) (float64, bool) {
	if m.samples == 0 {
		return 0, false
	}
	return m.sums[tier] / float64(m.samples), true
}

// Observe implements [control.Controller].
func (m *Module) Observe(control.Event) {}

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	m.sample()
	if now >= m.corrects {
		m.note()
		m.corrects = m.controller.Wake(now)
		m.samples = 0
		clear(m.sums)
	}
	return min(m.corrects, now+sampling)
}

// sample counts the requests on each tier.
func (m *Module) sample() {
	m.samples++
	for i, p := range m.options.Members {
		m.sums[p.Tier] += float64(m.options.Ledger.InFlightOn(i)) / m.options.Tiers[p.Tier].Compute
	}
}

// note keeps what the correction is made by, for the metrics.
func (m *Module) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.used {
		m.used[i], _ = m.Utilisation(i)
	}
}

var (
	shareDesc = prometheus.NewDesc("gearshift_tier_share", "Share of the requests that the tier gets, of those that it can answer.", []string{"tier"}, nil)
	usedDesc  = prometheus.NewDesc("gearshift_tier_load", "Requests in flight for each unit of the tier's compute, in the mean of the last period.", []string{"tier"}, nil)
)

// metrics are read as they are scraped.
func (m *Module) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, t := range m.options.Tiers {
			out.Gauge(shareDesc, m.shares[i], t.Name)
			out.Gauge(usedDesc, m.used[i], t.Name)
		}
	}, shareDesc, usedDesc)}
}
