package online

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/scrape"
)

// Status reports what was learned from scores, and how well the predictor in charge predicts them.
type Status struct {
	// Predictor names the one in charge; empty if there is none.
	Predictor string `json:"predictor"`
	// Out says that it is out of charge: the rows of tasks decide.
	Out bool `json:"out_of_charge"`
	// Learned counts the scores that it has learned from since it was put in charge.
	Learned int `json:"learned"`
	// Keys counts those that have scored answers lately, and Waits says why nothing is learned
	// from their scores; empty if something is.
	Keys  int    `json:"keys"`
	Waits string `json:"waits,omitempty"`
	// Saved says that all that was learned is stored.
	Saved bool `json:"saved"`
	// Last reports how well the last scores were predicted.
	Last Comparison `json:"last"`
}

// fewKeys is why nothing is learned from few keys' scores.
const fewKeys = "scores of three keys, or a key in quality.feedback.trusted: no other can tell whether one or two are right"

// Status returns what was learned.
func (t *Trainer) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// report brings the status up to date.
func (t *Trainer) report() {
	s := Status{Predictor: t.from.Name, Out: t.guard.out, Learned: t.learned, Keys: len(t.crowd.owners), Saved: !t.unsaved, Last: t.guard.compare()}
	if s.Keys > 0 && s.Keys < leastVoters && t.learned == 0 {
		s.Waits = fewKeys
	}
	t.status = s
}

// What scores were used for, as metrics have it.
var uses = [...]string{"learned", "left_out", "no_column"}

var (
	outDesc   = prometheus.NewDesc("gearshift_quality_out_of_charge", "Whether the predictor of quality is out of charge, as the rows of tasks predict scores better.", nil, nil)
	brierDesc = prometheus.NewDesc("gearshift_quality_brier", "Mean square of the error of what was predicted of the last scores.", []string{"by"}, nil)
)

// metrics counts scores by their use.
type metrics struct {
	scores  *prometheus.CounterVec
	unsaved prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		scores: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gearshift_quality_scores_used_total", Help: "Scores by whether the predictor learned from them.",
		}, []string{"use"}),
		unsaved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gearshift_quality_unsaved_total", Help: "Failed attempts to store what was learned from scores.",
		}),
	}
	for _, use := range uses {
		m.scores.WithLabelValues(use)
	}
	return m
}

func (m *metrics) used(use string) { m.scores.WithLabelValues(use).Inc() }

// Collectors returns the metrics of learning.
func (t *Trainer) Collectors() []prometheus.Collector {
	return []prometheus.Collector{t.metrics.scores, t.metrics.unsaved, scrape.New(t.collect, outDesc, brierDesc)}
}

func (t *Trainer) collect(out scrape.Metrics) {
	s := t.Status()
	out.Flag(outDesc, s.Out)
	if s.Last.Labels > 0 {
		out.Gauge(brierDesc, s.Last.Predictor, "predictor")
		out.Gauge(brierDesc, s.Last.Row, "row")
		out.Gauge(brierDesc, s.Last.Mean, "mean")
	}
}
