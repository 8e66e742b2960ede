// Package metrics counts what happens to requests. It observes the rooms that handle them:
// they report each event once, and read nothing back.
package metrics

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
	"gearshift/serving/admin/scrape"
	"gearshift/serving/work"
)

// Requests counts what happens to requests: as metrics, whose labels have few and
// fixed values, and as sums for the status page. It observes: each event is reported once.
type Requests struct {
	table   *fleet.Table
	handler http.Handler
	// Registry takes what others measure.
	Registry *prometheus.Registry
	// Queue counts what waits.
	Queue *Queue

	rejections *prometheus.CounterVec // task, reason
	refusals   *prometheus.CounterVec // status
	fallbacks  *prometheus.CounterVec // reason
	series     [][]series             // by task and variant
	attempts
	decisions  prometheus.Histogram
	overheads  prometheus.Histogram
	latencies  *latencies
	tokenPaces *prometheus.HistogramVec // variant
	choices    *choices
	held       *held

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

var (
	resultLabel     = Label{"result", []string{"met", "missed"}}
	refusedStatuses = []string{"400", "401", "403", "404", "408", "413", "415", "429"}
	fallbackReasons = []string{router.ReasonMissing, router.ReasonNoChoice, router.ReasonOutOfRange,
		router.ReasonUnavailable, router.ReasonPanic, router.ReasonDoubted, router.ReasonLate, router.ReasonFloor, router.ReasonContext, router.ReasonLimited, router.ReasonBalancer}
)

// Options are what metrics of requests are about.
type Options struct {
	Router work.Router
	Clock  work.Clock
	// Reasons are those of requests that are not begun, and Failures those of further attempts.
	Reasons, Failures []string
	// Waiting returns how many requests of each class wait.
	Waiting func() (classes []string, waiting []int)
}

// New makes the metrics of requests, at zero.
func New(o Options) *Requests {
	t := o.Router.Table()
	b := &Requests{table: t, tallies: make([][]tally, len(t.Tasks)), rejected: make([]uint64, len(t.Tasks))}
	for i := range b.tallies {
		b.tallies[i] = make([]tally, len(t.Variants))
	}
	registry := prometheus.NewRegistry()
	b.Registry = registry
	counter := func(name, help string, labels ...Label) *prometheus.CounterVec {
		v := NewCounter(name, help, labels...)
		registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gearshift_" + name, Help: help, Buckets: buckets}, labels)
		registry.MustRegister(v)
		return v
	}
	task, variant := Label{Name: "task"}, variantLabel(t)
	for i := range t.Tasks {
		task.Values = append(task.Values, t.Tasks[i].Name)
	}
	requests := counter("requests_total", "Routed requests that ended, by how they ended.", task, variant, Label{"outcome", work.Outcomes[:]})
	b.rejections = counter("rejections_total", "Requests that were not begun, by why: no replica could take them, or their clients left while they waited.", task, Label{"reason", o.Reasons})
	b.refusals = counter("refusals_total", "Requests at fault, by the status they got.", Label{"status", refusedStatuses})
	deadlines := counter("deadlines_total", "Deadlines met and missed. An answer that never came is a miss; a client's cancel is neither.", task, variant, resultLabel)
	utility := counter("utility_total", "Sum of the utility of completed requests.", task, variant)
	for _, task := range task.Values {
		row := make([]series, len(t.Variants))
		for v, variant := range variant.Values {
			for i, outcome := range work.Outcomes {
				row[v].outcomes[i] = requests.WithLabelValues(task, variant, outcome)
			}
			row[v].met, row[v].missed = deadlines.WithLabelValues(task, variant, "met"), deadlines.WithLabelValues(task, variant, "missed")
			row[v].utility = utility.WithLabelValues(task, variant)
		}
		b.series = append(b.series, row)
	}
	b.fallbacks = counter("fallbacks_total", "Requests that the policy did not decide.", Label{"reason", fallbackReasons})
	b.attempts = newAttempts(t, o.Failures, counter)
	b.decisions = histogram("decision_seconds", "Time to choose variant and replica and take the place.", overheadBuckets).WithLabelValues().(prometheus.Histogram)
	b.overheads = histogram("overhead_seconds", "Time from the end of a request's body to its dispatch: reading, deciding, rewriting.", overheadBuckets).WithLabelValues().(prometheus.Histogram)
	b.latencies = newLatencies(t, registry)
	b.tokenPaces = histogram("time_per_output_token_seconds", "Time from arrival to the end of completed requests, divided by their output tokens.", paceBuckets, "variant")
	b.choices = newChoices(t, registry)
	b.Queue = newQueue(o.Reasons, o.Waiting)
	b.held = newHeld(t)
	registry.MustRegister(b.held.ended, b.held.times, b.held.collect(o.Router.Ledger()))
	registry.MustRegister(b.Queue.waits, scrape.New(b.Queue.collect, queueDesc, shedDesc), fleetMetrics(o.Router, o.Clock),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
	return b
}

// Handler serves the metrics.
func (b *Requests) Handler() http.Handler { return b.handler }

// Chosen counts work that has its place, after a decision that took so long.
func (b *Requests) Chosen(w *work.Work, took time.Duration) {
	b.decisions.Observe(took.Seconds())
	b.choices.chosen(w)
	if !w.Fallback {
		return
	}
	b.fallbacks.WithLabelValues(w.Reason).Inc()
	b.mu.Lock()
	b.fellBack++
	b.mu.Unlock()
}

// Dispatched notes the router's own time, from the end of a request's body to its dispatch.
func (b *Requests) Dispatched(overhead time.Duration) { b.overheads.Observe(overhead.Seconds()) }

// Refused counts a request at fault.
func (b *Requests) Refused(status int) { b.refusals.WithLabelValues(strconv.Itoa(status)).Inc() }

// Shed counts a request of the task and the class that is not begun.
func (b *Requests) Shed(task int, class, reason string) {
	b.rejections.WithLabelValues(b.table.Tasks[task].Name, reason).Inc()
	b.Queue.shed(class, reason)
	b.mu.Lock()
	b.rejected[task]++
	b.mu.Unlock()
}

// Ended counts work that has ended.
func (b *Requests) Ended(w *work.Work, r work.Result) {
	b.attempts.deadlines(b.table, w, r)
	b.latencies.ended(w, r)
	if r.Outcome == work.Completed && r.PerToken > 0 {
		b.tokenPaces.WithLabelValues(b.table.Variants[w.Variant].Name).Observe(r.PerToken.Seconds())
	}
	b.Answered(w.Request.Task, w.Variant, 1, r)
}

// Answered counts n requests of a task that have ended alike on a variant, such as those of a job.
func (b *Requests) Answered(task, variant, n int, r work.Result) {
	own, count := &b.series[task][variant], uint64(n)
	own.outcomes[r.Outcome].Add(float64(n))
	sum := tally{requests: count, utility: float64(n) * r.Utility}
	switch {
	case r.Met:
		sum.met = count
		own.met.Add(float64(n))
	case r.Judged:
		sum.missed = count
		own.missed.Add(float64(n))
	}
	if r.Outcome == work.Completed {
		sum.completed = count
	}
	// A counter cannot fall; a negative weight or quality is left out.
	own.utility.Add(max(0, sum.utility))
	b.mu.Lock()
	b.tallies[task][variant].add(sum)
	b.mu.Unlock()
}

// Counts sums ended requests.
type Counts struct {
	Name      string `json:"name,omitempty"`
	Requests  uint64 `json:"requests"`
	Completed uint64 `json:"completed"`
	// DeadlineMet and DeadlineMissed leave out what is not judged (Result).
	DeadlineMet    uint64 `json:"deadline_met"`
	DeadlineMissed uint64 `json:"deadline_missed"`
	// UtilityMean is over the judged requests; zero if there are none.
	UtilityMean float64 `json:"utility_mean"`
}

func (t tally) counts(name string) Counts {
	c := Counts{Name: name, Requests: t.requests, Completed: t.completed, DeadlineMet: t.met, DeadlineMissed: t.missed}
	if judged := t.met + t.missed; judged > 0 {
		c.UtilityMean = t.utility / float64(judged)
	}
	return c
}

// Totals sums what happened since the start.
type Totals struct {
	Fallbacks, Rejected uint64
	// Total is of all ended requests; Variants and Tasks split it.
	Total           Counts
	Variants, Tasks []Counts
}

// Totals returns the sums.
func (b *Requests) Totals() (out Totals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out.Fallbacks = b.fellBack
	var total tally
	variants := make([]tally, len(b.table.Variants))
	for t, row := range b.tallies {
		var task tally
		for v := range row {
			task.add(row[v])
			variants[v].add(row[v])
		}
		total.add(task)
		out.Tasks = append(out.Tasks, task.counts(b.table.Tasks[t].Name))
		out.Rejected += b.rejected[t]
	}
	for v := range variants {
		out.Variants = append(out.Variants, variants[v].counts(b.table.Variants[v].Name))
	}
	out.Total = total.counts("")
	return out
}
