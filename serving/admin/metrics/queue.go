package metrics

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/scrape"
)

var (
	queueDesc = prometheus.NewDesc("gearshift_queue_length", "Requests that wait for room on a replica.", []string{"class"}, nil)
	shedDesc  = prometheus.NewDesc("gearshift_sheds_total", "Requests that were not begun, by class and why.", []string{"class", "reason"}, nil)
)

// waitBuckets are of times in the queue, in seconds.
var waitBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// Queue counts what waited and what was shed, by class.
type Queue struct {
	waits   *prometheus.HistogramVec
	reasons []string
	waiting func() (classes []string, waiting []int)

	mu    sync.Mutex          // protects sheds
	sheds map[string][]uint64 // by class and reason
}

func newQueue(reasons []string, waiting func() ([]string, []int)) *Queue {
	b := &Queue{reasons: reasons, waiting: waiting, sheds: map[string][]uint64{}}
	b.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gearshift_queue_wait_seconds", Help: "Time that requests waited for room before they were begun.", Buckets: waitBuckets,
	}, []string{"class"})
	return b
}

// Open begins what is counted of the classes, unless it has begun.
func (b *Queue) Open(classes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range classes {
		if b.sheds[name] == nil {
			b.sheds[name] = make([]uint64, len(b.reasons))
		}
		b.waits.WithLabelValues(name)
	}
}

// Waited notes for how long a request of the class waited before it was begun.
func (b *Queue) Waited(class string, d time.Duration) {
	b.waits.WithLabelValues(class).Observe(d.Seconds())
}

func (b *Queue) shed(class, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sheds[class][slices.Index(b.reasons, reason)]++
}

// shedOf is what has been shed of the class, by reason, those that are zero left out.
func (b *Queue) shedOf(class string) map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	shed := map[string]uint64{}
	for k, n := range b.sheds[class] {
		if n > 0 {
			shed[b.reasons[k]] = n
		}
	}
	return shed
}

// QueueStatus is what waits of one class, and what has been shed of it.
type QueueStatus struct {
	Class   string `json:"class"`
	Waiting int    `json:"waiting"`
	// Shed counts by reason, those that are zero left out.
	Shed map[string]uint64 `json:"shed"`
}

// Status returns what waits, and what has been shed, by class.
func (b *Queue) Status() []QueueStatus {
	classes, waiting := b.waiting()
	list := make([]QueueStatus, len(classes))
	for i, class := range classes {
		list[i] = QueueStatus{Class: class, Waiting: waiting[i], Shed: b.shedOf(class)}
	}
	return list
}

// collect shows the queue as it is when metrics are scraped.
func (b *Queue) collect(out scrape.Metrics) {
	for _, c := range b.Status() {
		out.Gauge(queueDesc, float64(c.Waiting), c.Class)
		for _, reason := range b.reasons {
			out.Counter(shedDesc, float64(c.Shed[reason]), c.Class, reason)
		}
	}
}
