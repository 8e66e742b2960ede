package drift

import "github.com/prometheus/client_golang/prometheus"

var (
	ratioDesc = prometheus.NewDesc("gearshift_profile_drift_ratio",
		"Time per output token of the replica's streams, measured as a multiple of what its profile says, smoothed.", []string{"replica", "variant"}, nil)
	answersDesc = prometheus.NewDesc("gearshift_profile_drift_answers_total",
		"Answers compared with the replica's profile.", []string{"replica", "variant"}, nil)
)

// Describe implements [prometheus.Collector].
func (m *Monitor) Describe(out chan<- *prometheus.Desc) {
	out <- ratioDesc
	out <- answersDesc
}

// Collect implements [prometheus.Collector]. Replicas without enough answers have
// no ratio.
func (m *Monitor) Collect(out chan<- prometheus.Metric) {
	for i, r := range m.table.Replicas {
		ratio, answers, known := m.Ratio(i)
		variant := m.table.Variants[r.Variant].Name
		out <- prometheus.MustNewConstMetric(answersDesc, prometheus.CounterValue, float64(answers), r.Name, variant)
		if known {
			out <- prometheus.MustNewConstMetric(ratioDesc, prometheus.GaugeValue, ratio, r.Name, variant)
		}
	}
}
