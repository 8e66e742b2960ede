package control

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// Sharing shows whether the store answers that routers share. It implements [serving.Module], and joins one server.
// Its methods may be called from any goroutine.
type Sharing struct {
	away    atomic.Bool
	outages atomic.Uint64
}

// Away notes that the store no longer answers, and Back that it does again.
func (m *Sharing) Away() {
	m.away.Store(true)
	m.outages.Add(1)
}

// Back follows Away.
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
