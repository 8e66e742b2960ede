package picker

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/metrics"
)

// The results of an exchange, as labels of the metric.
const (
	resultAnswered  = "answered"
	resultUnseen    = "unseen"
	resultImmediate = "immediate"
	resultLeft      = "left"
	resultBroken    = "broken"
	resultMalformed = "malformed"
)

// pickerMetrics count exchanges with gateways.
type pickerMetrics struct {
	exchanges *prometheus.CounterVec // result
}

func newMetrics() *pickerMetrics {
	return &pickerMetrics{exchanges: metrics.NewCounter("picker_exchanges_total",
		"Requests of gateways, by how they ended: a replica answered, its answer did not pass here, the router answered by itself, the gateway left before an answer, the exchange broke off, or it was none.",
		metrics.Label{Name: "result", Values: []string{resultAnswered, resultUnseen, resultImmediate, resultLeft, resultBroken, resultMalformed}})}
}

func (m *pickerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.exchanges}
}
