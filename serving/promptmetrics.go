package serving

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/work"
)

var (
	promptRatioDesc = prometheus.NewDesc("gearshift_prompt_tokens_ratio",
		"Tokens of prompts as engines count them, as a multiple of what the router estimates, smoothed; estimates are corrected by it.", []string{"task"}, nil)
	promptCountsDesc = prometheus.NewDesc("gearshift_prompt_tokens_counts_total",
		"Prompts whose tokens, as an engine counted them, were compared with the estimate.", []string{"task"}, nil)
)

// promptMetrics are those of the corrections.
type promptMetrics struct {
	prompts work.Prompts
	table   *fleet.Table
}

// Describe implements [prometheus.Collector].
func (promptMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- promptRatioDesc
	out <- promptCountsDesc
}

// Collect implements [prometheus.Collector].
func (m promptMetrics) Collect(out chan<- prometheus.Metric) {
	for i := range m.prompts {
		task := m.table.Tasks[i].Name
		out <- prometheus.MustNewConstMetric(promptRatioDesc, prometheus.GaugeValue, m.prompts[i].Value(), task)
		out <- prometheus.MustNewConstMetric(promptCountsDesc, prometheus.CounterValue, float64(m.prompts[i].Counts()), task)
	}
}
