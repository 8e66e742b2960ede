package control

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/control"
	"gearshift/router/signals"
	"gearshift/router/tiers"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// TiersOptions are what [Tiers] are made of.
type TiersOptions struct {
	Busy  *signals.Busy
	Tiers []tiers.Tier
	// Members has the tier of each replica.
	Members    []tiers.Membership
	Controller tiers.Options
	// Balancer sends by the shares.
	Balancer *tiers.Balancer
}

// Tiers corrects the shares of tiers: it measures how many requests each has for what it computes,
// and divides the next ones so that all have as many. It implements [serving.Module], and joins one server.
type Tiers struct {
	options    TiersOptions
	controller *tiers.Controller
	now        time.Duration
	corrects   time.Duration

	mu     sync.Mutex // protects all below
	shares []float64
	used   []float64
}

// NewTiers makes the module, and has the balancer send by what the tiers compute.
func NewTiers(o TiersOptions) (*Tiers, error) {
	m := &Tiers{options: o, used: make([]float64, len(o.Tiers))}
	var err error
	if m.controller, err = tiers.New(o.Tiers, o.Controller, m, m); err != nil {
		return nil, fmt.Errorf("cannot divide requests among tiers: %w", err)
	}
	m.Weigh(m.controller.Shares(nil))
	return m, nil
}

// Join implements [serving.Module].
func (m *Tiers) Join(s *serving.Server) serving.Parts {
	s.Engines().JoinHere(m)
	return serving.Parts{Metrics: m.metrics()}
}

// Weigh implements [tiers.Weigher].
func (m *Tiers) Weigh(shares []float64) {
	m.options.Balancer.Weigh(shares)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shares = append(m.shares[:0], shares...)
}

// Utilisation implements [tiers.Meter]: requests in flight, in the mean since the last correction, for each unit
// of compute. Tiers that are slower than they say have more of them.
func (m *Tiers) Utilisation(tier int) (sum float64, known bool) {
	for i, p := range m.options.Members {
		if p.Tier == tier {
			sum += m.options.Busy.Replica(i, m.options.Controller.Period, m.now).InFlight
		}
	}
	return sum / m.options.Tiers[tier].Compute, true
}

// Observe implements [control.Controller].
func (m *Tiers) Observe(control.Event) {}

// Wake implements [control.Controller].
func (m *Tiers) Wake(now time.Duration) time.Duration {
	m.now = now
	m.options.Busy.Sample(now)
	if now >= m.corrects {
		m.note()
		m.corrects = m.controller.Wake(now)
	}
	return min(m.corrects, now+signals.Sampling)
}

// note keeps what the correction is made by, for the metrics.
func (m *Tiers) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.used {
		m.used[i], _ = m.Utilisation(i)
	}
}

var (
	tierShareDesc = prometheus.NewDesc("gearshift_tier_share", "Share of the requests that the tier gets, of those that it can answer.", []string{"tier"}, nil)
	tierLoadDesc  = prometheus.NewDesc("gearshift_tier_load", "Requests in flight for each unit of the tier's compute, in the mean of the last period.", []string{"tier"}, nil)
)

// metrics are read as they are scraped.
func (m *Tiers) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, t := range m.options.Tiers {
			out.Gauge(tierShareDesc, m.shares[i], t.Name)
			out.Gauge(tierLoadDesc, m.used[i], t.Name)
		}
	}, tierShareDesc, tierLoadDesc)}
}
