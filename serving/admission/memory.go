package admission

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"gearshift/serving/admin/scrape"
	"gearshift/serving/admission/limits"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// This file bounds what clients may hold: memory for their requests, and connections. It
// counts what it refuses, and logs when much is.

// Memory bounds the memory of requests in flight.
type Memory struct {
	settings func() *config.Config
	known    int64 // the memory limit of the process; zero if unknown
	Bodies   *limits.Bodies
	Answers  *limits.Answers
	log      *slog.Logger
	lines    rate.Sometimes
}

// lineInterval is the time between two lines of the log that say memory is short.
const lineInterval = 10 * time.Second

// NewMemory makes the bounds that the settings in force size.
func NewMemory(settings func() *config.Config, known int64, log *slog.Logger) *Memory {
	sizes := settings().Memory.Resolve(known, settings().MaxBody)
	return &Memory{
		settings: settings, known: known, log: log, Bodies: limits.NewBodies(sizes.Bodies, cutOff), Answers: limits.NewAnswers(sizes.Answers),
		lines: rate.Sometimes{First: 1, Interval: lineInterval},
	}
}

// Follow takes over the settings as they are now.
func (m *Memory) Follow() {
	c := m.settings()
	sizes := c.Memory.Resolve(m.known, c.MaxBody)
	m.Bodies.SetLimit(sizes.Bodies)
	m.Answers.SetLimit(sizes.Answers)
}

// Short logs that there is no memory for an answer, and returns what to say instead.
func (m *Memory) Short(h http.Header) *wire.Refusal {
	m.LogShortage("answers")
	return m.Refusal(h, "answers")
}

// Refusal returns what to answer to a request for which there is no memory now.
func (m *Memory) Refusal(h http.Header, of string) *wire.Refusal {
	h.Set("Retry-After", strconv.Itoa(int((m.settings().RetryAfter+time.Second-1)/time.Second)))
	return &wire.Refusal{Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Code: "out_of_memory",
		Message: "the router has no memory left for " + of + "; try again later"}}
}

// LogShortage logs that memory is short, at most once in lineInterval.
func (m *Memory) LogShortage(what string) {
	m.lines.Do(func() {
		small, large, answers := m.Bodies.Usage(limits.SmallBodies), m.Bodies.Usage(limits.LargeBodies), m.Answers.Usage()
		m.log.Warn("memory for requests is short: some are refused", "for", what,
			"small_bodies_bytes", small.Held, "large_bodies_bytes", large.Held, "answers_bytes", answers.Held,
			"refused", small.Full+large.Full+answers.Full, "cut_off", small.Slow+large.Slow)
	})
}

// cutOff ends the read of a body that may be waiting.
func cutOff(writer any) {
	_ = http.NewResponseController(writer.(http.ResponseWriter)).SetReadDeadline(time.Unix(1, 0))
}

var (
	memoryHeld = prometheus.NewDesc("gearshift_memory_bytes",
		"Bytes that requests hold: bodies up to 64 KiB, larger ones, and buffered answers.", []string{"kind"}, nil)
	memoryLimits   = prometheus.NewDesc("gearshift_memory_limit_bytes", "The bound of gearshift_memory_bytes.", []string{"kind"}, nil)
	memoryRefusals = prometheus.NewDesc("gearshift_memory_refusals_total",
		"Refusals for lack of memory: requests refused (full), slow senders cut off (slow), answers whose usage was not read (unread).",
		[]string{"kind", "reason"}, nil)
)

// Metrics shows the bytes that requests hold, their bounds, and what was refused for them.
func (m *Memory) Metrics() prometheus.Collector {
	return scrape.New(m.collect, memoryHeld, memoryLimits, memoryRefusals)
}

func (m *Memory) collect(out scrape.Metrics) {
	show := func(kind string, held, limit int64, full uint64, reason string, others uint64) {
		out.Gauge(memoryHeld, float64(held), kind)
		out.Gauge(memoryLimits, float64(limit), kind)
		out.Counter(memoryRefusals, float64(full), kind, "full")
		out.Counter(memoryRefusals, float64(others), kind, reason)
	}
	small, large, answers := m.Bodies.Usage(limits.SmallBodies), m.Bodies.Usage(limits.LargeBodies), m.Answers.Usage()
	show("small_bodies", small.Held, small.Limit, small.Full, "slow", small.Slow)
	show("large_bodies", large.Held, large.Limit, large.Full, "slow", large.Slow)
	show("answers", answers.Held, answers.Limit, answers.Full, "unread", answers.Unread)
}
