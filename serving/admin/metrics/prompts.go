package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/work"
)

var (
	promptRatioDesc = prometheus.NewDesc("gearshift_prompt_tokens_ratio",
		"Tokens of prompts as engines count them, as a multiple of what the router estimates, smoothed; estimates are corrected by it.", []string{"task"}, nil)
	promptCountsDesc = prometheus.NewDesc("gearshift_prompt_tokens_counts_total",
		"Prompts whose tokens, as an engine counted them, were compared with the estimate.", []string{"task"}, nil)
)

// Prompts shows the corrections of prompts' lengths, by task.
func Prompts(corrections work.Prompts, t *fleet.Table) prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		for i := range corrections {
			out.Gauge(promptRatioDesc, corrections[i].Value(), t.Tasks[i].Name)
			out.Counter(promptCountsDesc, float64(corrections[i].Counts()), t.Tasks[i].Name)
		}
	}, promptRatioDesc, promptCountsDesc)
}
