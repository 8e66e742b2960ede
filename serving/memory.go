package serving

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"gearshift/serving/memory"
)

// budgets bound the memory of requests in flight.
type budgets struct {
	known   int64 // the memory limit of the process; zero if unknown
	bodies  *memory.Bodies
	answers *memory.Answers
	lines   rate.Sometimes
}

// memoryLineInterval is the time between two lines of the log that say memory is short.
const memoryLineInterval = 10 * time.Second

// newBudgets makes the budgets that the configuration sizes.
func newBudgets(c *Config, known int64) *budgets {
	sizes := c.Memory.Resolve(known, c.MaxBody)
	return &budgets{
		known: known, bodies: memory.NewBodies(sizes.Bodies, cutOff), answers: memory.NewAnswers(sizes.Answers),
		lines: rate.Sometimes{First: 1, Interval: memoryLineInterval},
	}
}

// follow takes in another configuration.
func (b *budgets) follow(c *Config) {
	sizes := c.Memory.Resolve(b.known, c.MaxBody)
	b.bodies.SetLimit(sizes.Bodies)
	b.answers.SetLimit(sizes.Answers)
}

// logShortage logs that memory is short, at most once in memoryLineInterval.
func (b *budgets) logShortage(s *Server, what string) {
	b.lines.Do(func() {
		small, large, answers := b.bodies.Usage(memory.SmallBodies), b.bodies.Usage(memory.LargeBodies), b.answers.Usage()
		s.log.Warn("memory for requests is short: some are refused", "for", what,
			"small_bodies_bytes", small.Held, "large_bodies_bytes", large.Held, "answers_bytes", answers.Held,
			"refused", small.Full+large.Full+answers.Full, "cut_off", small.Slow+large.Slow)
	})
}

// answerBuffer is what a request is charged for passing on an answer.
const answerBuffer = 32 << 10

var (
	memoryHeld = prometheus.NewDesc("gearshift_memory_bytes",
		"Bytes that requests hold: bodies up to 64 KiB, larger ones, and buffered answers.", []string{"kind"}, nil)
	memoryLimits   = prometheus.NewDesc("gearshift_memory_limit_bytes", "The bound of gearshift_memory_bytes.", []string{"kind"}, nil)
	memoryRefusals = prometheus.NewDesc("gearshift_memory_refusals_total",
		"Refusals for lack of memory: requests refused (full), slow senders cut off (slow), answers whose usage was not read (unread).",
		[]string{"kind", "reason"}, nil)
)

// Describe implements [prometheus.Collector].
func (b *budgets) Describe(out chan<- *prometheus.Desc) {
	out <- memoryHeld
	out <- memoryLimits
	out <- memoryRefusals
}

// Collect implements [prometheus.Collector].
func (b *budgets) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	count := func(v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(memoryRefusals, prometheus.CounterValue, float64(v), labels...)
	}
	for _, x := range []struct {
		kind  string
		class memory.Class
	}{{"small_bodies", memory.SmallBodies}, {"large_bodies", memory.LargeBodies}} {
		u := b.bodies.Usage(x.class)
		gauge(memoryHeld, u.Held, x.kind)
		gauge(memoryLimits, u.Limit, x.kind)
		count(u.Full, x.kind, "full")
		count(u.Slow, x.kind, "slow")
	}
	u := b.answers.Usage()
	gauge(memoryHeld, u.Held, "answers")
	gauge(memoryLimits, u.Limit, "answers")
	count(u.Full, "answers", "full")
	count(u.Unread, "answers", "unread")
}
