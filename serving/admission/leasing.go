package admission

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/admission/limits"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// This file is the work that callers of the route endpoint do themselves: they get a
// place on a replica, and hold it until they report the end, the lease expires, or an operator
// revokes it.

// LeaseOptions make a [LeaseManager].
type LeaseOptions struct {
	Table *fleet.Table
	// Settings are those in force.
	Settings func() *config.Config
	// Output is the mean length of an answer in tokens; zero is unknown.
	Output float64
	// Settle ends work and reports its end. It reports false of work that has ended before.
	Settle func(w *work.Work, outcome work.Outcome, tokens int) (work.Result, bool)
	// NewID makes an ID that cannot be guessed.
	NewID func() string
	Clock work.Clock
	Log   *slog.Logger
}

// LeaseManager has the leases that are held. Its methods may be called from any goroutine.
type LeaseManager struct {
	LeaseOptions
	set     *limits.LeaseSet[leasedWork]
	refused *prometheus.CounterVec // reason
	ended   *prometheus.CounterVec // how
}

// leasedWork is the work of a lease.
type leasedWork struct {
	*work.Work
	most  int            // output tokens that its caller may report
	timer *time.Timer    // of its expiry
	key   *access.Holder // whose concurrency it takes; nil without a key
}

// How a lease ends, by the label of the metric.
const (
	leaseEnded   = "ended"
	leaseExpired = "expired"
	leaseRevoked = "revoked"
	leaseClosed  = "closed" // the server shut down
)

// unboundedPlaces stands for the places of a replica that has no limit.
const unboundedPlaces = 64

// NewLeases makes a manager without leases.
func NewLeases(o LeaseOptions) *LeaseManager {
	rooms := make([]limits.Room, len(o.Table.Replicas))
	for i, r := range o.Table.Replicas {
		rooms[i] = limits.Room{Places: r.Limit, Tokens: r.KVTokens}
		if r.Limit == 0 {
			rooms[i].Places = unboundedPlaces
		}
	}
	why := metrics.Label{Name: "reason"}
	for _, r := range limits.Refusals {
		why.Values = append(why.Values, string(r))
	}
	return &LeaseManager{
		LeaseOptions: o, set: limits.NewSet[leasedWork](rooms),
		refused: metrics.NewCounter("leases_refused_total", "Requests for a lease that got none, by why: the endpoint is off, or leases hold their share.", why),
		ended:   metrics.NewCounter("leases_ended_total", "Leases that ended, by how: ended by their holders, expired, revoked by an operator, or closed at shutdown.", metrics.Label{Name: "how", Values: []string{leaseEnded, leaseExpired, leaseRevoked, leaseClosed}}),
	}
}

// Fits reports why the key would get no lease.
func (m *LeaseManager) Fits(key string) limits.Refusal { return m.set.Fits(m.Settings().Leases, key) }

// Count adds the leases to the replicas' counts.
func (m *LeaseManager) Count(to []int) { m.set.Count(to) }

// Add gives out a lease of the work for so long. The ID is random, so that
// another's cannot be guessed. A lease keeps the place among its key's requests that the request
// for it has.
func (m *LeaseManager) Add(key string, w *work.Work, maxTokens int, timeout time.Duration, of *access.Held) (string, limits.Refusal) {
	now := m.Clock()
	x := limits.Lease[leasedWork]{
		ID: m.NewID(), Key: key, Replica: w.Replica, Tokens: w.Held(), Taken: now, Until: now + timeout,
		Work: leasedWork{Work: w, most: m.mostOutput(w, maxTokens), key: of.Holder()},
	}
	// The timer may not fire before it is known to the lease.
	ready := make(chan struct{})
	defer close(ready)
	x.Work.timer = time.AfterFunc(timeout, func() {
		<-ready
		if gone, ok := m.set.Remove(x.ID); ok {
			m.settle(gone, work.Expired, 0, leaseExpired)
		}
	})
	of.Keep(true)
	if why := m.set.Add(m.Settings().Leases, x); why != limits.None {
		of.Keep(false)
		x.Work.timer.Stop()
		return "", why
	}
	return x.ID, limits.None
}

// End ends the lease for the key that took it, and returns its work. Report notes on that what
// the caller says of the answer, and returns its length. It reports false if there is no such
// lease, or it is another's.
func (m *LeaseManager) End(id, key string, report func(*work.Work) (tokens int)) (*work.Work, work.Result, bool) {
	x, ok := m.set.End(id, key)
	if !ok {
		return nil, work.Result{}, false
	}
	r, ok := m.settle(x, work.Completed, min(report(x.Work.Work), x.Work.most), leaseEnded)
	return x.Work.Work, r, ok
}

// settle ends the work of a lease that has been taken out.
func (m *LeaseManager) settle(x limits.Lease[leasedWork], outcome work.Outcome, tokens int, how string) (work.Result, bool) {
	x.Work.timer.Stop()
	r, ok := m.Settle(x.Work.Work, outcome, tokens)
	if x.Work.key != nil {
		x.Work.key.End()
	}
	m.ended.WithLabelValues(how).Inc()
	return r, ok
}

// Close ends all leases, and gives out no more.
func (m *LeaseManager) Close() {
	for _, x := range m.set.Close() {
		m.settle(x, work.Expired, 0, leaseClosed)
	}
}

// mostOutputTokens bounds what a caller may report where neither its request nor the
// replica's memory does.
const mostOutputTokens = 1 << 17

// mostOutput bounds the length that the caller may report: its own max_tokens, and
// what the replica's memory can hold in addition to the prompt.
func (m *LeaseManager) mostOutput(w *work.Work, maxTokens int) int {
	most := mostOutputTokens
	if memory := m.Table.Replicas[w.Replica].KVTokens; memory > 0 {
		most = max(1, memory-w.Request.PromptTokens)
	}
	if maxTokens > 0 {
		most = min(most, maxTokens)
	}
	return most
}

// A lease lives for leaseMargin and twice the time that its answer is expected to take
// at most: of all max_tokens, or of an answer of leaseLengths mean ones.
const (
	leaseMargin  = 10 * time.Second
	leaseLengths = 4
)

// Lifetime is how long the lease of the work lives, at most serving.lease_timeout.
func (m *LeaseManager) Lifetime(w *work.Work, maxTokens int) time.Duration {
	most := m.Settings().LeaseTimeout
	tokens := float64(maxTokens)
	if maxTokens == 0 {
		tokens = leaseLengths * m.Output
	}
	if tokens == 0 {
		return most
	}
	pace := float64(m.Table.Tasks[w.Request.Task].Allowed(w.Request.Deadline)) * max(1, w.Pace)
	if t := float64(leaseMargin) + 2*tokens*pace; t < float64(most) {
		return time.Duration(t)
	}
	return most
}

// Refusal counts a request that gets no lease, and returns what to answer to it.
func (m *LeaseManager) Refusal(h http.Header, why limits.Refusal) *wire.Refusal {
	m.refused.WithLabelValues(string(why)).Inc()
	switch why {
	case limits.Closed:
		return &wire.Refusal{Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Code: "not_ready", Message: "shutting down"}}
	case limits.Off:
		return &wire.Refusal{Status: http.StatusNotFound, Error: wire.Error{Type: wire.InvalidRequest, Code: "leases_off", Message: "this router gives out no leases (serving.leases.enabled)"}}
	}
	const code = "lease_limit_exceeded"
	message := map[limits.Refusal]string{
		limits.Total:     "leases hold their share of the fleet (serving.leases.share); end those that are over, or try again later",
		limits.OfKey:     "the leases of this API key hold its share of the fleet (serving.leases.key_share); end those that are over, or try again later",
		limits.Anonymous: "leases without an API key hold their share of the fleet (serving.leases.anonymous_share); end those that are over, or try again later",
		limits.Replica:   "leases hold their share of the replica that would answer; try again later, or with a shorter prompt",
	}[why]
	h.Set(access.HeaderReason, code)
	h.Set("Retry-After", strconv.Itoa(int((m.Settings().RetryAfter+time.Second-1)/time.Second)))
	return &wire.Refusal{Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Code: wire.Optional(code), Message: message}}
}

// List is the leases that are held.
func (m *LeaseManager) List() Leases {
	out := Leases{Leases: []LeaseStatus{}}
	now := m.Clock()
	for _, x := range m.set.List() {
		w := x.Work
		out.Leases = append(out.Leases, LeaseStatus{
			ID: x.ID, Key: x.Key, Task: m.Table.Tasks[w.Request.Task].Name,
			Variant: m.Table.Variants[w.Variant].Name, Replica: m.Table.Replicas[w.Replica].Name,
			PromptTokens: w.Request.PromptTokens, AgeS: (now - x.Taken).Seconds(), ExpiresS: max(0, x.Until-now).Seconds(),
		})
	}
	return out
}

// Revoke takes back the places of the leases that f reports true of, by key and ID, and
// returns those that are held then. By is who wants it, for the log.
func (m *LeaseManager) Revoke(f func(key, id string) bool, by string) Leases {
	gone := m.set.RemoveAll(func(x limits.Lease[leasedWork]) bool { return f(x.Key, x.ID) })
	for _, x := range gone {
		m.settle(x, work.Expired, 0, leaseRevoked)
	}
	if len(gone) > 0 {
		m.Log.Info("leases revoked", "leases", len(gone), "by", by)
	}
	left := m.List()
	left.Revoked = len(gone)
	return left
}

var leasesDesc = prometheus.NewDesc("gearshift_leases", "Leases of the route endpoint that are held, by whether an API key took them.", []string{"holder"}, nil)

// Metrics are those of the leases. The ones that are held are counted when metrics are scraped.
func (m *LeaseManager) Metrics() []prometheus.Collector {
	return []prometheus.Collector{m.refused, m.ended, scrape.New(func(out scrape.Metrics) {
		keyed, anonymous := 0.0, 0.0
		for _, x := range m.set.List() {
			if x.Key == "" {
				anonymous++
			} else {
				keyed++
			}
		}
		out.Gauge(leasesDesc, keyed, "key")
		out.Gauge(leasesDesc, anonymous, "anonymous")
	}, leasesDesc)}
}

// Unseen is what leased work is assumed to hold in addition to its prompt.
func (m *LeaseManager) Unseen(maxTokens int) int {
	if maxTokens > 0 {
		return min(maxTokens, int(m.Output))
	}
	return int(m.Output)
}
