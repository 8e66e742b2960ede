package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/work"
)

// latencies are what clients wait for, by the names of OpenTelemetry's semantic
// conventions for generative AI, as Prometheus writes them; the model is the variant.
type latencies struct {
	table                          *fleet.Table
	request, firstToken, nextToken *prometheus.HistogramVec // model
}

// firstTokenBuckets are those of the conventions for the same, in seconds.
var firstTokenBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

func newLatencies(t *fleet.Table, registry *prometheus.Registry) *latencies {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gen_ai_server_" + name, Help: help, Buckets: buckets}, []string{"gen_ai_response_model"})
		registry.MustRegister(v)
		return v
	}
	return &latencies{
		table:      t,
		request:    histogram("request_duration_seconds", "Time from arrival to the end of completed requests.", requestBuckets),
		firstToken: histogram("time_to_first_token_seconds", "Time from arrival to the first token, or to the beginning of an answer in one piece.", firstTokenBuckets),
		nextToken:  histogram("time_per_output_token_seconds", "Time from the first token to the end of completed streams, divided by the tokens after the first.", paceBuckets),
	}
}

// ended notes how long the work took.
func (l *latencies) ended(w *work.Work, r work.Result) {
	model := l.table.Variants[w.Variant].Name
	if w.FirstToken > 0 {
		l.firstToken.WithLabelValues(model).Observe(w.FirstToken.Seconds())
	}
	if r.Outcome != work.Completed {
		return
	}
	l.request.WithLabelValues(model).Observe(r.Latency.Seconds())
	if w.Streams && w.FirstToken > 0 && r.Tokens > 1 {
		l.nextToken.WithLabelValues(model).Observe(((r.Latency - w.FirstToken) / time.Duration(r.Tokens-1)).Seconds())
	}
}
