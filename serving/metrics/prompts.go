package metrics

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

// Prompts are the metrics of the corrections of prompts' lengths, by task.
type Prompts struct {
	Corrections work.Prompts
	Table       *fleet.Table
}

// Describe implements [prometheus.Collector].
func (Prompts) Describe(out chan<- *prometheus.Desc) {
	out <- promptRatioDesc
	out <- promptCountsDesc
}

// Collect implements [prometheus.Collector].
func (m Prompts) Collect(out chan<- prometheus.Metric) {
	for i := range m.Corrections {
		task := m.Table.Tasks[i].Name
		out <- prometheus.MustNewConstMetric(promptRatioDesc, prometheus.GaugeValue, m.Corrections[i].Value(), task)
		out <- prometheus.MustNewConstMetric(promptCountsDesc, prometheus.CounterValue, float64(m.Corrections[i].Counts()), task)
	}
}
