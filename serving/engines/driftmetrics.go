package engines

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/drift"
	"gearshift/router/fleet"
)

var (
	driftDesc = prometheus.NewDesc("gearshift_profile_drift_ratio",
		"Time per output token of the replica's streams, measured as a multiple of what its profile says, smoothed.", []string{"replica", "variant"}, nil)
	slowDesc = prometheus.NewDesc("gearshift_replica_slowdown_ratio",
		"How many times as long as its profile says forecasts take the replica to take; 1 is as long.", []string{"replica", "variant"}, nil)
	driftAnswersDesc = prometheus.NewDesc("gearshift_profile_drift_answers_total",
		"Answers compared with the replica's profile.", []string{"replica", "variant"}, nil)
)

// driftMetrics show what a monitor has measured.
type driftMetrics struct {
	monitor *drift.Monitor
	table   *fleet.Table
}

// Describe implements [prometheus.Collector].
func (driftMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- driftDesc
	out <- driftAnswersDesc
	out <- slowDesc
}

// Collect implements [prometheus.Collector]. Replicas without enough answers have
// no ratio.
func (m driftMetrics) Collect(out chan<- prometheus.Metric) {
	for i, r := range m.table.Replicas {
		ratio, answers, known := m.monitor.Ratio(i)
		variant := m.table.Variants[r.Variant].Name
		out <- prometheus.MustNewConstMetric(driftAnswersDesc, prometheus.CounterValue, float64(answers), r.Name, variant)
		out <- prometheus.MustNewConstMetric(slowDesc, prometheus.GaugeValue, m.monitor.Shown(i), r.Name, variant)
		if known {
			out <- prometheus.MustNewConstMetric(driftDesc, prometheus.GaugeValue, ratio, r.Name, variant)
		}
	}
}
