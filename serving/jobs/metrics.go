package jobs

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/scrape"
)

// metrics count what happens to jobs.
type metrics struct {
	jobs     *prometheus.CounterVec // by model, task and outcome
	requests *prometheus.CounterVec // by model and variant
	quality  *prometheus.CounterVec // by model and kind
	failures *prometheus.CounterVec // by model and worker
	seconds  *prometheus.HistogramVec
	planned  prometheus.Histogram
}

// The kinds of quality that are summed over requests: asked for, promised by the plan, and given.
const (
	qualityAsked    = "asked"
	qualityPromised = "promised"
	qualityGiven    = "given"
)

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_" + name, Help: help}, labels)
	}
	return &metrics{
		jobs:     counter("jobs_total", "Jobs by how they ended.", "model", "task", "outcome"),
		requests: counter("job_requests_total", "Requests of jobs that were answered, by the variant that answered.", "model", "variant"),
		quality:  counter("job_quality_total", "Qualities of answered jobs, summed over their requests: asked for (the floor), promised by the plan, and given. Divide by gearshift_job_requests_total.", "model", "kind"),
		failures: counter("job_batch_failures_total", "Batches of jobs that an engine failed to answer.", "model", "worker"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gearshift_job_seconds", Help: "Time from a job's arrival to its last answer.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}, []string{"model"}),
		planned: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gearshift_job_plan_seconds", Help: "Time of a plan of the jobs that wait for a worker.", Buckets: prometheus.ExponentialBuckets(0.00001, 2.5, 12),
		}),
	}
}

// ended counts a job.
func (m *metrics) ended(r *Result) {
	m.jobs.WithLabelValues(r.Model, r.Task, r.Outcome).Inc()
	if !r.Answered() {
		return
	}
	for variant, n := range r.Strategy {
		m.requests.WithLabelValues(r.Model, variant).Add(float64(n))
	}
	n := float64(r.Inputs)
	m.quality.WithLabelValues(r.Model, qualityAsked).Add(n * r.MinQuality)
	m.quality.WithLabelValues(r.Model, qualityPromised).Add(n * r.Promised)
	m.quality.WithLabelValues(r.Model, qualityGiven).Add(n * r.Quality)
	m.seconds.WithLabelValues(r.Model).Observe(r.TookMS / 1000)
}

var (
	waitingDesc  = prometheus.NewDesc("gearshift_jobs_waiting", "Jobs, or parts of them, that wait for a worker.", []string{"model", "worker"}, nil)
	backlogDesc  = prometheus.NewDesc("gearshift_job_backlog_seconds", "How long a worker is expected to be busy with what runs and waits, at everybody's fastest.", []string{"model", "worker"}, nil)
	slownessDesc = prometheus.NewDesc("gearshift_job_slowness", "How many times as long a worker takes as its profile says.", []string{"model", "worker"}, nil)
)

// Describe implements [prometheus.Collector].
func (s *Service) Describe(out chan<- *prometheus.Desc) {
	for _, c := range s.collectors() {
		c.Describe(out)
	}
	out <- waitingDesc
	out <- backlogDesc
	out <- slownessDesc
}

// Collect implements [prometheus.Collector].
func (s *Service) Collect(out chan<- prometheus.Metric) {
	for _, c := range s.collectors() {
		c.Collect(out)
	}
	for _, w := range s.Queues() {
		scrape.Metrics(out).Gauge(waitingDesc, float64(w.Waiting), w.Model, w.Worker)
		scrape.Metrics(out).Gauge(backlogDesc, w.BacklogMS/1000, w.Model, w.Worker)
		scrape.Metrics(out).Gauge(slownessDesc, w.Slowness, w.Model, w.Worker)
	}
}

func (s *Service) collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.jobs, m.requests, m.quality, m.failures, m.seconds, m.planned}
}

// Queue is what a worker has to do.
type Queue struct {
	Model     string  `json:"model"`
	Worker    string  `json:"worker"`
	Waiting   int     `json:"waiting"`
	Running   bool    `json:"running"`
	BacklogMS float64 `json:"backlog_ms"`
	Slowness  float64 `json:"slowness"`
	// Last is the strategy of the job that was begun last, such as "digits-image=2", its
	// quality by the plan, and how long it was expected to take.
	Last        string  `json:"last,omitempty"`
	LastQuality float64 `json:"last_quality,omitempty"`
	LastMS      float64 `json:"last_expect_ms,omitempty"`
}

// line is the batches on one line.
func (s *model) line(batches []int) string {
	var list []string
	for option, n := range batches {
		if n > 0 {
			list = append(list, fmt.Sprintf("%s=%d", s.Options[s.entries[option].Option].Variant, n))
		}
	}
	return strings.Join(list, ", ")
}

// Queues are those of all workers.
func (s *Service) Queues() (all []Queue) {
	if s == nil {
		return nil
	}
	now := s.now()
	for _, m := range s.models {
		m.mu.Lock()
		for i, w := range m.pool.Workers {
			q := Queue{Model: m.Name, Worker: m.Workers[i].Name, Waiting: w.Waiting(), Running: w.Running != nil, BacklogMS: short(w.Expected(now)), Slowness: short(w.Slowness())}
			if c := w.Last; c != nil {
				q.Last, q.LastQuality, q.LastMS = m.line(c.Batches), short(c.Quality), short(c.Expect)
			}
			all = append(all, q)
		}
		m.mu.Unlock()
	}
	return all
}
