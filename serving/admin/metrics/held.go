package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/admin/scrape"
)

// How it ends that a request is held for a replica to be loaded or woken.
const (
	HeldBegun    = "begun"
	HeldTimedOut = "timed_out" // no replica was up in time
	HeldFull     = "full"      // too many others were held
	HeldEnded    = "ended"     // its client left, another request displaced it, or the server ended
)

var heldDesc = prometheus.NewDesc("gearshift_held_requests", "Requests that are held until a replica of the variant has been loaded or woken.", []string{"variant"}, nil)

// held counts requests that are held, by variant.
type held struct {
	table *fleet.Table
	ended *prometheus.CounterVec // variant, result
	times *prometheus.HistogramVec
}

func newHeld(t *fleet.Table) *held {
	h := &held{table: t}
	h.ended = NewCounter("held_total", "Requests that were held until a replica of the variant had been loaded or woken, by how that ended.", variantLabel(t), Label{"result", []string{HeldBegun, HeldTimedOut, HeldFull, HeldEnded}})
	h.times = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gearshift_held_seconds", Help: "Time that requests were held before they were begun.", Buckets: waitBuckets,
	}, []string{"variant"})
	for i := range t.Variants {
		h.times.WithLabelValues(t.Variants[i].Name)
	}
	return h
}

// Held counts a request that is held no longer for a replica of the variant, after so long.
func (b *Requests) Held(variant int, result string, d time.Duration) {
	name := b.table.Variants[variant].Name
	b.held.ended.WithLabelValues(name, result).Inc()
	if result == HeldBegun {
		b.held.times.WithLabelValues(name).Observe(d.Seconds())
	}
}

// collect shows how many are held when metrics are scraped.
func (h *held) collect(l *fleet.Ledger) prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		for v := range h.table.Variants {
			out.Gauge(heldDesc, float64(l.Awaited(v)), h.table.Variants[v].Name)
		}
	}, heldDesc)
}
