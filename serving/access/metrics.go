package access

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/keys"
)

var (
	keyRequestsDesc = prometheus.NewDesc("gearshift_key_requests_total", "Requests by API key, and whether its limits let them pass: accepted, or refused for its rate or concurrency.", []string{"key", "result"}, nil)
	keyInFlightDesc = prometheus.NewDesc("gearshift_key_in_flight", "Requests of the API key in flight.", []string{"key"}, nil)
	keyTokensDesc   = prometheus.NewDesc("gearshift_key_tokens_total", "Tokens of prompts and answers that requests of the API key have used.", []string{"key"}, nil)
	keyBudgetDesc   = prometheus.NewDesc("gearshift_key_budget_refusals_total", "Requests of the API key that were refused because a token budget of it is used up.", []string{"key"}, nil)
)

// Describe implements [prometheus.Collector].
func (g *Gate) Describe(out chan<- *prometheus.Desc) {
	g.keyless.Describe(out)
	out <- keyRequestsDesc
	out <- keyInFlightDesc
	out <- keyTokensDesc
	out <- keyBudgetDesc
}

// Collect implements [prometheus.Collector]. The keys are those in force, so that the labels
// are those of the keys file.
func (g *Gate) Collect(out chan<- prometheus.Metric) {
	g.keyless.Collect(out)
	for _, h := range g.Ring().Holders() {
		for _, v := range keys.Verdicts {
			out <- prometheus.MustNewConstMetric(keyRequestsDesc, prometheus.CounterValue, float64(h.Count(v)), h.Name, v.String())
		}
		out <- prometheus.MustNewConstMetric(keyInFlightDesc, prometheus.GaugeValue, float64(h.InFlight()), h.Name)
		tokens, refused := h.Used()
		out <- prometheus.MustNewConstMetric(keyTokensDesc, prometheus.CounterValue, float64(tokens), h.Name)
		out <- prometheus.MustNewConstMetric(keyBudgetDesc, prometheus.CounterValue, float64(refused), h.Name)
	}
}
