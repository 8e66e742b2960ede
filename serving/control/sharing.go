package control

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// Sharing reports whether the store that routers share answers. It implements [serving.Module], and joins one
// server. Its methods may be called from any goroutine.
type Sharing struct {
	away    atomic.Bool
	outages atomic.Uint64
}

// Away records that the store no longer answers.
func (m *Sharing) Away() {
	m.away.Store(true)
	m.outages.Add(1)
}

// Back records that the store answers again.
func (m *Sharing) Back() { m.away.Store(false) }

var (
	reachableDesc = prometheus.NewDesc("gearshift_store_reachable", "Whether the store that routers share answers; at 0 the last policy routes, and promotions are refused.", nil, nil)
	outagesDesc   = prometheus.NewDesc("gearshift_store_outages_total", "How often the store that routers share has ceased to answer.", nil, nil)
)

// Join implements [serving.Module].
func (m *Sharing) Join(*serving.Server) serving.Parts {
	return serving.Parts{Metrics: []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		out.Flag(reachableDesc, !m.away.Load())
		out.Counter(outagesDesc, float64(m.outages.Load()))
	}, reachableDesc, outagesDesc)}}
}

// Leading reports whether this router is the acting one of several. It implements [serving.Module].
type Leading struct {
	Acts func() bool
	Term func() uint64
}

var (
	leaderDesc     = prometheus.NewDesc("gearshift_leader", "Whether this router is the one of several whose controllers act.", nil, nil)
	leaderTermDesc = prometheus.NewDesc("gearshift_leader_term", "The term in which this router acts, or acted last; 0 if it never has.", nil, nil)
)

// Join implements [serving.Module].
func (m Leading) Join(*serving.Server) serving.Parts {
	return serving.Parts{Metrics: []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		out.Flag(leaderDesc, m.Acts())
		out.Gauge(leaderTermDesc, float64(m.Term()))
	}, leaderDesc, leaderTermDesc)}}
}
