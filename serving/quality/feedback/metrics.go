package feedback

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Names are those of tasks and variants, by index.
type Names struct{ Tasks, Variants []string }

// The values of the label source.
const (
	ofClients = "feedback"
	shadow    = "shadow"
)

// The values of the label outcome.
const (
	taken   = "taken"
	unknown = "unknown"
	late    = "late"
	twice   = "twice"
	tooMany = "too_many"
)

// metrics counts scores.
type metrics struct {
	names  Names
	labels *prometheus.CounterVec
	scores *prometheus.HistogramVec
}

func newMetrics(names Names) *metrics {
	m := &metrics{
		names: names,
		labels: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gearshift_quality_labels_total", Help: "Scores of answers, by where they come from and whether they were taken.",
		}, []string{"source", "outcome"}),
		scores: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gearshift_quality_label_score", Help: "Scores that were taken. Their mean is the quality that clients saw.", Buckets: []float64{0, 0.25, 0.5, 0.75, 1},
		}, []string{"task", "variant", "arm"}),
	}
	for _, outcome := range []string{taken, unknown, late, twice, tooMany} {
		m.labels.WithLabelValues(ofClients, outcome)
	}
	return m
}

// Collectors returns the metrics of scores.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.labels, s.metrics.scores}
}

// taken counts a score, or why it was refused.
func (m *metrics) taken(l *Label, err error) {
	outcome := taken
	switch {
	case errors.Is(err, ErrUnknown):
		outcome = unknown
	case errors.Is(err, ErrLate):
		outcome = late
	case errors.Is(err, ErrTwice):
		outcome = twice
	case err != nil:
		outcome = tooMany
	default:
		m.scores.WithLabelValues(m.names.Tasks[l.Task], m.names.Variants[l.Variant], Arms[l.Arm]).Observe(l.Score)
	}
	m.labels.WithLabelValues(ofClients, outcome).Inc()
}
