package quality

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/admin/scrape"
)

var (
	inChargeDesc = prometheus.NewDesc("gearshift_quality_in_charge", "The predictor of quality in charge, or on trial; always 1.", []string{"predictor", "digest", "state"}, nil)
	failedDesc   = prometheus.NewDesc("gearshift_quality_failed", "Whether the predictor of quality that is wanted does not predict, so that the rows of tasks decide.", nil, nil)
)

// predictionMetrics are those of single predictions.
type predictionMetrics struct {
	predictions []prometheus.Counter // by task
	sure        []prometheus.Observer
	qualities   [][]prometheus.Observer // by task and variant
	seconds     prometheus.Histogram

	all []prometheus.Collector
}

// Buckets of what is between 0 and 1, and of times in seconds.
var (
	shareBuckets  = prometheus.LinearBuckets(0.1, 0.1, 10)
	secondBuckets = []float64{5e-6, 1e-5, 2e-5, 3e-5, 6e-5, 1e-4, 2e-4, 3e-4, 1e-3, 1e-2}
)

func newPredictionMetrics(t *fleet.Table) *predictionMetrics {
	predictions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_quality_predictions_total", Help: "Requests whose quality was predicted from their prompt."}, []string{"task"})
	sure := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gearshift_quality_sure", Help: "How sure predictions were, from 0 to 1.", Buckets: shareBuckets}, []string{"task"})
	qualities := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gearshift_quality_predicted", Help: "Predicted quality of the variant that a request was given.", Buckets: shareBuckets}, []string{"task", "variant"})
	m := &predictionMetrics{seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gearshift_quality_prediction_seconds", Help: "Time to read a prompt and predict.", Buckets: secondBuckets})}
	m.all = []prometheus.Collector{predictions, sure, qualities, m.seconds}
	for i := range t.Tasks {
		name, row := t.Tasks[i].Name, make([]prometheus.Observer, len(t.Variants))
		for v := range row {
			if t.Answers(i, v) {
				row[v] = qualities.WithLabelValues(name, t.Variants[v].Name)
			}
		}
		m.predictions, m.sure, m.qualities = append(m.predictions, predictions.WithLabelValues(name)), append(m.sure, sure.WithLabelValues(name)), append(m.qualities, row)
	}
	return m
}

// predicted counts a prediction, which took so long.
func (m *predictionMetrics) predicted(r *fleet.Request, took time.Duration) {
	m.predictions[r.Task].Inc()
	m.sure[r.Task].Observe(float64(r.Predicted.Sure))
	m.seconds.Observe(took.Seconds())
}

// chosen counts a request that was given a variant of that predicted quality.
func (m *predictionMetrics) chosen(task, variant int, predicted float64) {
	if o := m.qualities[task][variant]; o != nil {
		o.Observe(predicted)
	}
}

// Metrics are those of all predictions.
func (p *Predictors) Metrics() []prometheus.Collector {
	return append([]prometheus.Collector{scrape.New(p.collect, inChargeDesc, failedDesc)}, p.metrics.all...)
}

func (p *Predictors) collect(out scrape.Metrics) {
	now := p.now.Load()
	p.mu.Lock()
	failed := p.fault != ""
	p.mu.Unlock()
	out.Flag(failedDesc, failed)
	if l := now.charge; l != nil {
		out.Gauge(inChargeDesc, 1, l.Name, l.Digest, now.chargeState())
	}
	if l := now.trial; l != nil {
		out.Gauge(inChargeDesc, 1, l.Name, l.Digest, now.state())
	}
}
