package access

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/scrape"
)

var (
	keyRequestsDesc = prometheus.NewDesc("gearshift_key_requests_total", "Requests by API key, and whether its limits let them pass: accepted, or refused for its rate or concurrency.", []string{"key", "result"}, nil)
	keyInFlightDesc = prometheus.NewDesc("gearshift_key_in_flight", "Requests of the API key in flight.", []string{"key"}, nil)
	keyTokensDesc   = prometheus.NewDesc("gearshift_key_tokens_total", "Tokens of prompts and answers that requests of the API key have used.", []string{"key"}, nil)
	keyBudgetDesc   = prometheus.NewDesc("gearshift_key_budget_refusals_total", "Requests of the API key that were refused because a token budget of it is used up.", []string{"key"}, nil)
)

// Metrics are what keys have used, and how many requests came without one.
func (g *Gate) Metrics() []prometheus.Collector {
	return []prometheus.Collector{g.keyless, scrape.New(g.collect, keyRequestsDesc, keyInFlightDesc, keyTokensDesc, keyBudgetDesc)}
}

// collect looks at the keys in force, so that the labels are those of the keys file.
func (g *Gate) collect(out scrape.Metrics) {
	for _, h := range g.Ring().Holders() {
		for _, v := range KeyVerdicts {
			out.Counter(keyRequestsDesc, float64(h.Count(v)), h.Name, v.String())
		}
		out.Gauge(keyInFlightDesc, float64(h.InFlight()), h.Name)
		tokens, refused := h.Used()
		out.Counter(keyTokensDesc, float64(tokens), h.Name)
		out.Counter(keyBudgetDesc, float64(refused), h.Name)
	}
}
