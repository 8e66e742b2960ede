package serving

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/tokens"
	"gearshift/serving/wire"
)

// prompts correct the estimated lengths of prompts by what engines count, for each task: a task's
// prompts are of one kind, and the sizes of a model have one vocabulary.
type prompts []tokens.Ratio

// tokens is the length of a prompt as far as is known. Token ids and media are not corrected.
func (p prompts) tokens(task int, prompt wire.Prompt) int {
	return prompt.IDs + prompt.Media + p[task].Of(prompt.Text+prompt.Marks)
}

// learn takes in what the engine counted of the work's prompt. A prompt of which the request does
// not show all is ignored, as is one that is longer than the replica can hold.
func (p prompts) learn(w *Work, counted int) {
	prompt := w.prompt
	room := w.adapter.router.Table().Replicas[w.Replica].KVTokens
	if prompt.Hidden || prompt.IDs > prompt.Text || room > 0 && counted > room {
		return
	}
	p[w.Request.Task].Learn(prompt.Text+prompt.Marks, counted-prompt.IDs)
}

var (
	promptRatioDesc = prometheus.NewDesc("gearshift_prompt_tokens_ratio",
		"Tokens of prompts as engines count them, as a multiple of what the router estimates, smoothed; estimates are corrected by it.", []string{"task"}, nil)
	promptCountsDesc = prometheus.NewDesc("gearshift_prompt_tokens_counts_total",
		"Prompts whose tokens, as an engine counted them, were compared with the estimate.", []string{"task"}, nil)
)

// promptMetrics are those of the corrections.
type promptMetrics struct {
	prompts prompts
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
