// Package scaling runs the controller of replica counts within the server: it has replicas of variants loaded before
// the load that needs them, and unloaded after it.
package scaling

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/placement/replicas"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/engines"
)

// Options are what a Module is made of.
type Options struct {
	Ledger *fleet.Ledger
	// Busy measures the load of replicas.
	Busy *signals.Busy
	// Counted lists the variants whose replicas are counted, once a Period.
	Counted []replicas.Counted
	Period  time.Duration
	Log     *slog.Logger
}

// Module counts the replicas of a server. It implements [serving.Module], and joins one server.
type Module struct {
	*replicas.Replicas
	table   *fleet.Table
	engines *engines.Engines
	log     *slog.Logger
}

// New makes a Module.
func New(o Options) (m *Module, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m = &Module{table: o.Ledger.Table(), log: o.Log}
	m.Replicas, err = replicas.NewReplicas(o.Counted, o.Period, o.Ledger, o.Busy, m)
	return m, err
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.engines = s.Engines()
	m.Claim(m.engines.Claim)
	m.engines.Join(m)
	return serving.Parts{Metrics: m.metrics()}
}

// Driven implements [replicas.Engines].
func (m *Module) Driven(replica int) bool { return m.engines.Driven(replica) != "" }

// Ordered implements [replicas.Engines].
func (m *Module) Ordered(a control.Action, err error) {
	name := m.table.Replicas[a.Replica].Name
	if err != nil {
		m.log.Warn("the number of replicas is not as wanted", "replica", name, "verb", a.Verb.String(), "error", err)
		return
	}
	m.log.Info("counting replicas", "replica", name, "verb", a.Verb.String())
}

// Variant is how the replicas of one are counted.
type Variant struct {
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
func (m *Module) Situation() (list []Variant) {
	m.engines.Look(func() {
		for _, x := range m.Status() {
			list = append(list, Variant{m.table.Variants[x.Variant].Name, x.Up, x.Loading, x.Wanted, x.Load, x.Expected})
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
func (m *Module) metrics() []prometheus.Collector {
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
