package serving

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/work"
)

// books keep count of what happened: as metrics, whose labels have few and
// fixed values, and as sums for the status page.
type books struct {
	table   *fleet.Table
	metrics http.Handler
	// registry takes what others measure.
	registry *prometheus.Registry

	rejections *prometheus.CounterVec // task, reason
	refusals   *prometheus.CounterVec // status
	fallbacks  *prometheus.CounterVec // reason
	series     [][]series             // by task and variant
	life       *lifeBooks
	decisions  prometheus.Histogram
	overheads  prometheus.Histogram
	latencies  *latencies
	tokenPaces *prometheus.HistogramVec // variant
	choices    *choices

	mu       sync.Mutex // protects all below
	tallies  [][]tally  // by task and variant
	rejected []uint64   // by task
	fellBack uint64
}

// tally sums the ended requests of one task on one variant.
type tally struct {
	requests, completed, met, missed uint64
	utility                          float64
}

func (t *tally) add(o tally) {
	t.requests += o.requests
	t.completed += o.completed
	t.met += o.met
	t.missed += o.missed
	t.utility += o.utility
}

// series are the counters of one task on one variant, as looking them up by their
// labels takes longer than counting.
type series struct {
	outcomes             [len(work.Outcomes)]prometheus.Counter
	met, missed, utility prometheus.Counter
}

// Buckets of the histograms, in seconds: what the router itself takes, whole
// requests, and the pace of their tokens, finest around usual deadlines.
var (
	overheadBuckets = []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 0.1, 1}
	requestBuckets  = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500}
	paceBuckets     = []float64{0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045, 0.05, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1}
)

// label is one of a counter, with the values that it can have.
type label struct {
	name   string
	values []string
}

var (
	resultLabel     = label{"result", []string{"met", "missed"}}
	refusedStatuses = []string{"400", "401", "403", "404", "408", "413", "415", "429"}
	fallbackReasons = []string{router.ReasonMissing, router.ReasonNoChoice, router.ReasonOutOfRange,
		router.ReasonUnavailable, router.ReasonPanic, router.ReasonLate, router.ReasonFloor, router.ReasonContext, router.ReasonLimited, router.ReasonBalancer}
)

func variantLabel(t *fleet.Table) label {
	l := label{name: "variant"}
	for i := range t.Variants {
		l.values = append(l.values, t.Variants[i].Name)
	}
	return l
}

// newCounter begins each of its series at zero: to rate(), the event with which a
// series begins has never happened.
func newCounter(name, help string, labels ...label) *prometheus.CounterVec {
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.name
	}
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_" + name, Help: help}, names)
	zero(v, labels)
	return v
}

// zero begins the series of all combinations of values.
func zero(v *prometheus.CounterVec, labels []label, values ...string) {
	if len(labels) == 0 {
		v.WithLabelValues(values...)
		return
	}
	for _, value := range labels[0].values {
		zero(v, labels[1:], append(values, value)...)
	}
}

func newBooks(r work.Router, clock work.Clock) *books {
	t := r.Table()
	b := &books{table: t, tallies: make([][]tally, len(t.Tasks)), rejected: make([]uint64, len(t.Tasks))}
	for i := range b.tallies {
		b.tallies[i] = make([]tally, len(t.Variants))
	}
	registry := prometheus.NewRegistry()
	b.registry = registry
	counter := func(name, help string, labels ...label) *prometheus.CounterVec {
		v := newCounter(name, help, labels...)
		registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gearshift_" + name, Help: help, Buckets: buckets}, labels)
		registry.MustRegister(v)
		return v
	}
	task, variant := label{name: "task"}, variantLabel(t)
	for i := range t.Tasks {
		task.values = append(task.values, t.Tasks[i].Name)
	}
	requests := counter("requests_total", "Routed requests that ended, by how they ended.", task, variant, label{"outcome", work.Outcomes[:]})
	b.rejections = counter("rejections_total", "Requests that were not begun, by why: no replica could take them, or their clients left while they waited.", task, label{"reason", reasons})
	b.refusals = counter("refusals_total", "Requests at fault, by the status they got.", label{"status", refusedStatuses})
	deadlines := counter("deadlines_total", "Deadlines met and missed. An answer that never came is a miss; a client's cancel is neither.", task, variant, resultLabel)
	utility := counter("utility_total", "Sum of the utility of completed requests.", task, variant)
	for _, task := range task.values {
		row := make([]series, len(t.Variants))
		for v, variant := range variant.values {
			for i, outcome := range work.Outcomes {
				row[v].outcomes[i] = requests.WithLabelValues(task, variant, outcome)
			}
			row[v].met, row[v].missed = deadlines.WithLabelValues(task, variant, "met"), deadlines.WithLabelValues(task, variant, "missed")
			row[v].utility = utility.WithLabelValues(task, variant)
		}
		b.series = append(b.series, row)
	}
	b.fallbacks = counter("fallbacks_total", "Requests that the policy did not decide.", label{"reason", fallbackReasons})
	b.life = newLifeBooks(t, counter)
	b.decisions = histogram("decision_seconds", "Time to choose variant and replica and take the place.", overheadBuckets).WithLabelValues().(prometheus.Histogram)
	b.overheads = histogram("overhead_seconds", "Time from the end of a request's body to its dispatch: reading, deciding, rewriting.", overheadBuckets).WithLabelValues().(prometheus.Histogram)
	b.latencies = newLatencies(t, registry)
	b.tokenPaces = histogram("time_per_output_token_seconds", "Time from arrival to the end of completed requests, divided by their output tokens.", paceBuckets, "variant")
	b.choices = newChoices(t, registry)
	registry.MustRegister(&fleetCollector{router: r, clock: clock},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
	return b
}

func (b *books) handler() http.Handler { return b.metrics }

func (b *books) decided(d time.Duration) { b.decisions.Observe(d.Seconds()) }

func (b *books) spent(d time.Duration) { b.overheads.Observe(d.Seconds()) }

// refuse counts a request at fault.
func (b *books) refuse(status int) { b.refusals.WithLabelValues(strconv.Itoa(status)).Inc() }

// reject counts a request that is not begun.
func (b *books) reject(task int, reason string) {
	b.rejections.WithLabelValues(b.table.Tasks[task].Name, reason).Inc()
	b.mu.Lock()
	b.rejected[task]++
	b.mu.Unlock()
}

func (b *books) fallback(reason string) {
	b.fallbacks.WithLabelValues(reason).Inc()
	b.mu.Lock()
	b.fellBack++
	b.mu.Unlock()
}

// settle enters ended work.
func (b *books) settle(w *work.Work, r work.Result) {
	own := &b.series[w.Request.Task][w.Variant]
	own.outcomes[r.Outcome].Inc()
	b.latencies.settle(w, r)
	one := tally{requests: 1, utility: r.Utility}
	switch {
	case r.Met:
		one.met = 1
		own.met.Inc()
	case r.Judged:
		one.missed = 1
		own.missed.Inc()
	}
	if r.Outcome == work.Completed {
		one.completed = 1
		if r.PerToken > 0 {
			b.tokenPaces.WithLabelValues(b.table.Variants[w.Variant].Name).Observe(r.PerToken.Seconds())
		}
	}
	// A counter cannot fall; a negative weight or quality is left out.
	own.utility.Add(max(0, r.Utility))
	b.mu.Lock()
	b.tallies[w.Request.Task][w.Variant].add(one)
	b.mu.Unlock()
}
