package engines

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/serving/admin/scrape"
)

var replicaStateDesc = prometheus.NewDesc("gearshift_replica_lifecycle",
	"1 for the state that the replica is in: up, cold, loading, warm, draining or down.", []string{"replica", "variant", "state"}, nil)

var placementDesc = prometheus.NewDesc("gearshift_placement_epoch", "Changes so far of where replicas are placed.", nil, nil)

// lifecycleMetrics are the states of replicas, and what engines were ordered to do.
type lifecycleMetrics struct {
	engines *Engines
	actions *prometheus.CounterVec   // replica, action, result
	seconds *prometheus.HistogramVec // action
	unread  *prometheus.GaugeVec     // replica

	mu     sync.Mutex
	silent map[int]bool // replicas whose engines do not report their states
}

func newLifecycleMetrics(e *Engines) *lifecycleMetrics {
	m := &lifecycleMetrics{
		engines: e, silent: map[int]bool{},
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_replica_actions_total",
			Help: "Loads, unloads, sleeps and wakes that engines were told to do."}, []string{"replica", "action", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gearshift_replica_action_seconds",
			Help:    "Time that engines took for actions that succeeded.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}}, []string{"action"}),
		unread: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gearshift_replica_lifecycle_unread",
			Help: "Whether the replica's engine does not tell the state of its model, though it should."}, []string{"replica"}),
	}
	for i, b := range e.options.Backends {
		if b.Lifecycle != nil {
			m.begin(e.table.Replicas[i].Name)
		}
	}
	return m
}

// begin has the counts of a replica stand at zero.
func (m *lifecycleMetrics) begin(replica string) {
	m.unread.WithLabelValues(replica)
	for _, verb := range []control.Verb{control.Load, control.Unload, control.Sleep, control.Wake} {
		m.seconds.WithLabelValues(verb.String())
		for _, result := range []string{"success", "failure"} {
			m.actions.WithLabelValues(replica, verb.String(), result)
		}
	}
}

// collectors are all of them.
func (m *lifecycleMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.actions, m.seconds, m.unread, scrape.New(m.collect, replicaStateDesc, placementDesc)}
}

// collect shows where replicas are placed.
func (m *lifecycleMetrics) collect(out scrape.Metrics) {
	table := m.engines.table
	out.Gauge(placementDesc, float64(m.engines.options.Ledger.Epoch()))
	for i, r := range table.Replicas {
		now := m.engines.options.Ledger.State(i)
		for _, state := range fleet.States() {
			out.Flag(replicaStateDesc, state == now, r.Name, table.Variants[r.Variant].Name, state.String())
		}
	}
}

// ended counts an action.
func (m *lifecycleMetrics) ended(a control.Action, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	} else {
		m.seconds.WithLabelValues(a.Verb.String()).Observe(took.Seconds())
	}
	m.actions.WithLabelValues(m.engines.table.Replicas[a.Replica].Name, a.Verb.String(), result).Inc()
}

// polled notes whether the engine of the replicas reports their states. It reports whether
// it did so before.
func (m *lifecycleMetrics) polled(replicas []int, err error) (before bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = !m.silent[replicas[0]]
	for _, i := range replicas {
		m.silent[i] = err != nil
		value := 0.0
		if err != nil {
			value = 1
		}
		m.unread.WithLabelValues(m.engines.table.Replicas[i].Name).Set(value)
	}
	return before
}
