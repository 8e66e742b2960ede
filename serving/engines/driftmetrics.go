package engines

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/serving/admin/scrape"
)

var (
	driftDesc = prometheus.NewDesc("gearshift_profile_drift_ratio",
		"Time per output token of the replica's streams, measured as a multiple of what its profile says, smoothed.", []string{"replica", "variant"}, nil)
	slowDesc = prometheus.NewDesc("gearshift_replica_slowdown_ratio",
		"How many times as long as its profile says forecasts take the replica to take; 1 is as long.", []string{"replica", "variant"}, nil)
	doubtDesc = prometheus.NewDesc("gearshift_policy_doubted",
		"Whether a rule decides instead of learned policies, because forecasts are off; 1 if so.", nil, nil)
	driftAnswersDesc = prometheus.NewDesc("gearshift_profile_drift_answers_total",
		"Answers compared with the replica's profile.", []string{"replica", "variant"}, nil)
)

// driftMetrics show what the monitor has measured of the replicas. Replicas without enough
// answers have no ratio.
func driftMetrics(m *drift.Monitor, t *fleet.Table) prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		doubted := 0.0
		if m.Doubted() {
			doubted = 1
		}
		out.Gauge(doubtDesc, doubted)
		for i, r := range t.Replicas {
			ratio, answers, known := m.Ratio(i)
			variant := t.Variants[r.Variant].Name
			out.Counter(driftAnswersDesc, float64(answers), r.Name, variant)
			out.Gauge(slowDesc, m.Shown(i), r.Name, variant)
			if known {
				out.Gauge(driftDesc, ratio, r.Name, variant)
			}
		}
	}, driftDesc, driftAnswersDesc, slowDesc, doubtDesc)
}
