package serving

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	queueDesc = prometheus.NewDesc("gearshift_queue_length", "Requests that wait for room on a replica.", []string{"class"}, nil)
	shedDesc  = prometheus.NewDesc("gearshift_sheds_total", "Requests that were not begun, by class and why.", []string{"class", "reason"}, nil)
)

// waitBuckets are of times in the queue, in seconds.
var waitBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// lineBooks count what waited and what was shed, by class.
type lineBooks struct {
	waits *prometheus.HistogramVec

	mu    sync.Mutex          // protects sheds
	sheds map[string][]uint64 // by class and reason
}

func newLineBooks() *lineBooks {
	b := &lineBooks{sheds: map[string][]uint64{}}
	b.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gearshift_queue_wait_seconds", Help: "Time that requests waited for room before they were begun.", Buckets: waitBuckets,
	}, []string{"class"})
	return b
}

// open begins what is counted of the classes, unless it has begun.
func (b *lineBooks) open(classes []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range classes {
		if b.sheds[name] == nil {
			b.sheds[name] = make([]uint64, len(reasons))
		}
		b.waits.WithLabelValues(name)
	}
}

func (b *lineBooks) waited(class string, d time.Duration) {
	b.waits.WithLabelValues(class).Observe(d.Seconds())
}

func (b *lineBooks) shed(class, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sheds[class][slices.Index(reasons, reason)]++
}

// shedOf is what has been shed of the class, by reason, those that are zero left out.
func (b *lineBooks) shedOf(class string) map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	shed := map[string]uint64{}
	for k, n := range b.sheds[class] {
		if n > 0 {
			shed[reasons[k]] = n
		}
	}
	return shed
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

// status is of the classes that are listed, and of others of which some wait.
func (l *line) status() []QueueStatus {
	l.mu.Lock()
	kinds := l.kinds.Load()
	var list []QueueStatus
	for _, i := range kinds.listed {
		list = append(list, QueueStatus{Class: kinds.all[i].Name, Waiting: l.backlog.Waiting(i)})
	}
	for i, c := range kinds.all {
		if n := l.backlog.Waiting(i); n > 0 && !slices.Contains(kinds.listed, i) {
			list = append(list, QueueStatus{Class: c.Name, Waiting: n})
		}
	}
	l.mu.Unlock()
	for i := range list {
		list[i].Shed = l.books.shedOf(list[i].Class)
	}
	return list
}
