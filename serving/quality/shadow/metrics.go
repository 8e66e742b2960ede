package shadow

import "github.com/prometheus/client_golang/prometheus"

// What came of a request that was drawn, as metrics have it.
const (
	labelled   = "labelled"
	unfit      = "unfit"       // it has tools, media or no text, or its answer came in part
	busy       = "busy"        // others are under way
	noRoom     = "no_room"     // requests wait, or no place is free that they would not need
	overBudget = "over_budget" // the hour's tokens are used up
	failed     = "failed"      // the second size did not answer
	noText     = "no_text"     // one of the answers has none
)

type metrics struct {
	drawn  *prometheus.CounterVec
	tokens prometheus.Counter
}

func newMetrics() metrics {
	m := metrics{
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_quality_shadow_total", Help: "Requests drawn to be answered by a second variant too, by what came of it."}, []string{"outcome"}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "gearshift_quality_shadow_tokens_total", Help: "Output tokens of second answers."}),
	}
	for _, outcome := range []string{labelled, unfit, busy, noRoom, overBudget, failed, noText} {
		m.drawn.WithLabelValues(outcome)
	}
	return m
}

// Metrics are those of second answers.
func (s *Shadows) Metrics() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.drawn, s.metrics.tokens}
}
