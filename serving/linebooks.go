package serving

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	queueDesc = prometheus.NewDesc("gearshift_queue_length", "Requests that wait for room on a replica.", []string{"class"}, nil)
	shedDesc  = prometheus.NewDesc("gearshift_sheds_total", "Requests refused because no replica had room for them, by why.", []string{"class", "reason"}, nil)
)

// waitBuckets are of times in the queue, in seconds.
var waitBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// lineBooks count what waited and what was shed, by class.
type lineBooks struct {
	classes []string
	sheds   [][]atomic.Uint64 // by class and reason
	waits   *prometheus.HistogramVec
}

func newLineBooks(classes []string) *lineBooks {
	b := &lineBooks{classes: classes, sheds: make([][]atomic.Uint64, len(classes))}
	b.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gearshift_queue_wait_seconds", Help: "Time that requests waited for room before they were begun.", Buckets: waitBuckets,
	}, []string{"class"})
	for i, name := range classes {
		b.sheds[i] = make([]atomic.Uint64, len(reasons))
		b.waits.WithLabelValues(name)
	}
	return b
}

func (b *lineBooks) waited(class int, d time.Duration) {
	b.waits.WithLabelValues(b.classes[class]).Observe(d.Seconds())
}

func (b *lineBooks) shed(class int, reason string) {
	b.sheds[class][slices.Index(reasons, reason)].Add(1)
}

// Describe implements [prometheus.Collector].
func (l *line) Describe(out chan<- *prometheus.Desc) {
	out <- queueDesc
	out <- shedDesc
	l.books.waits.Describe(out)
}

// Collect implements [prometheus.Collector].
func (l *line) Collect(out chan<- prometheus.Metric) {
	for _, c := range l.status() {
		out <- prometheus.MustNewConstMetric(queueDesc, prometheus.GaugeValue, float64(c.Waiting), c.Class)
		for _, reason := range reasons {
			out <- prometheus.MustNewConstMetric(shedDesc, prometheus.CounterValue, float64(c.Shed[reason]), c.Class, reason)
		}
	}
	l.books.waits.Collect(out)
}

// QueueStatus is what waits of one class, and what has been shed of it.
type QueueStatus struct {
	Class   string `json:"class"`
	Waiting int    `json:"waiting"`
	// Shed counts by reason, those that are zero left out.
	Shed map[string]uint64 `json:"shed"`
}

func (l *line) status() []QueueStatus {
	list := make([]QueueStatus, len(l.names))
	l.mu.Lock()
	for i := range list {
		list[i].Waiting = l.queue.Waiting(i)
	}
	l.mu.Unlock()
	for i := range list {
		list[i].Class, list[i].Shed = l.names[i], map[string]uint64{}
		for k, reason := range reasons {
			if n := l.books.sheds[i][k].Load(); n > 0 {
				list[i].Shed[reason] = n
			}
		}
	}
	return list
}
