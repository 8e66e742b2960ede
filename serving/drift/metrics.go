package drift

import "github.com/prometheus/client_golang/prometheus"

var (
	ratioDesc = prometheus.NewDesc("gearshift_profile_drift_ratio",
		"Time per output token of the replica's streams, measured as a multiple of what its profile says, smoothed.", []string{"replica", "variant"}, nil)
	slowDesc = prometheus.NewDesc("gearshift_replica_slowdown_ratio",
		"How many times as long as its profile says forecasts take the replica to take; 1 is as long.", []string{"replica", "variant"}, nil)
	answersDesc = prometheus.NewDesc("gearshift_profile_drift_answers_total",
		"Answers compared with the replica's profile.", []string{"replica", "variant"}, nil)
)

// Describe implements [prometheus.Collector].
func (m *Monitor) Describe(out chan<- *prometheus.Desc) {
	out <- ratioDesc
	out <- answersDesc
	out <- slowDesc
}

// Collect implements [prometheus.Collector]. Replicas without enough answers have
// no ratio.
func (m *Monitor) Collect(out chan<- prometheus.Metric) {
	for i, r := range m.table.Replicas {
		ratio, answers, known := m.Ratio(i)
		variant := m.table.Variants[r.Variant].Name
		out <- prometheus.MustNewConstMetric(answersDesc, prometheus.CounterValue, float64(answers), r.Name, variant)
		out <- prometheus.MustNewConstMetric(slowDesc, prometheus.GaugeValue, m.Slowdown(i), r.Name, variant)
		if known {
			out <- prometheus.MustNewConstMetric(ratioDesc, prometheus.GaugeValue, ratio, r.Name, variant)
		}
	}
}
