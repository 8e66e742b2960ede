package control

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/router/placement/replicas"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// ScalingOptions are what a [Scaling] is made of.
type ScalingOptions struct {
	Ledger *fleet.Ledger
	// Busy measures the load of replicas.
	Busy *signals.Busy
	// Counted lists the variants whose replicas are counted, once a Period.
	Counted []replicas.Counted
	Period  time.Duration
	Log     *slog.Logger
}

// Scaling counts the replicas of a server. It implements [serving.Module], and joins one server.
type Scaling struct {
	ordered
	*replicas.Replicas
}

// NewScaling makes the module.
func NewScaling(o ScalingOptions) (m *Scaling, err error) {
	m = &Scaling{ordered: newOrdered(o.Ledger, o.Log, "counting replicas", "the number of replicas is not as wanted")}
	m.Replicas, err = replicas.NewReplicas(o.Counted, o.Period, o.Ledger, o.Busy, m)
	return m, err
}

// Join implements [serving.Module].
func (m *Scaling) Join(s *serving.Server) serving.Parts {
	m.engines = s.Engines()
	m.Claim(m.engines.Claim)
	m.engines.Join(m)
	return serving.Parts{Metrics: m.metrics()}
}

// ScaledVariant is how the replicas of one are counted.
type ScaledVariant struct {
	Variant string `json:"variant"`
	Up      int    `json:"up"`
	Loading int    `json:"loading"`
	Wanted  int    `json:"wanted"`
	// Load is how many hosts its replicas kept busy in the last period, and Expected how many they are expected to
	// once a replica that is started now is up, with the margin.
	Load     float64 `json:"load"`
	Expected float64 `json:"expected"`
}

// Situation returns how the replicas of each variant are counted.
func (m *Scaling) Situation() (list []ScaledVariant) {
	m.engines.Look(func() {
		for _, x := range m.Status() {
			list = append(list, ScaledVariant{m.table.Variants[x.Variant].Name, x.Up, x.Loading, x.Wanted, x.Load, x.Expected})
		}
	})
	return list
}

var (
	countDesc    = prometheus.NewDesc("gearshift_scaling_replicas", "Replicas of a variant that are up, that are being loaded, and that are wanted.", []string{"variant", "of"}, nil)
	loadDesc     = prometheus.NewDesc("gearshift_scaling_load", "How many hosts the variant's replicas kept busy in the last period.", []string{"variant"}, nil)
	expectedDesc = prometheus.NewDesc("gearshift_scaling_expected_load", "How many hosts they are expected to keep busy once a replica that is started now is up, with the margin.", []string{"variant"}, nil)
)

// metrics are read as they are scraped.
func (m *Scaling) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		for _, x := range m.Situation() {
			out.Gauge(countDesc, float64(x.Up), x.Variant, "up")
			out.Gauge(countDesc, float64(x.Loading), x.Variant, "loading")
			out.Gauge(countDesc, float64(x.Wanted), x.Variant, "wanted")
			out.Gauge(loadDesc, x.Load, x.Variant)
			out.Gauge(expectedDesc, x.Expected, x.Variant)
		}
	}, countDesc, loadDesc, expectedDesc)}
}
