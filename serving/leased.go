package serving

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/access"
	"gearshift/serving/keys"
	"gearshift/serving/leases"
	"gearshift/serving/metrics"
	"gearshift/serving/wire"
	"gearshift/serving/work"
)

// leased is the work that callers of the route endpoint do themselves, until they
// report its end, the lease expires, or an operator revokes it.
type leased struct {
	*Server
	set     *leases.Set[leasedWork]
	refused *prometheus.CounterVec // reason
	ended   *prometheus.CounterVec // how
}

// leasedWork is the work of a lease.
type leasedWork struct {
	*work.Work
	most  int          // output tokens that its caller may report
	timer *time.Timer  // of its expiry
	key   *keys.Holder // whose concurrency it takes; nil without a key
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

func newLeased(s *Server) *leased {
	rooms := make([]leases.Room, len(s.table.Replicas))
	for i, r := range s.table.Replicas {
		rooms[i] = leases.Room{Places: r.Limit, Tokens: r.KVTokens}
		if r.Limit == 0 {
			rooms[i].Places = unboundedPlaces
		}
	}
	why := metrics.Label{Name: "reason"}
	for _, r := range leases.Refusals {
		why.Values = append(why.Values, string(r))
	}
	l := &leased{
		Server: s, set: leases.New[leasedWork](rooms),
		refused: metrics.NewCounter("leases_refused_total", "Requests for a lease that got none, by why: the endpoint is off, or leases hold their share.", why),
		ended:   metrics.NewCounter("leases_ended_total", "Leases that ended, by how: ended by their holders, expired, revoked by an operator, or closed at shutdown.", metrics.Label{Name: "how", Values: []string{leaseEnded, leaseExpired, leaseRevoked, leaseClosed}}),
	}
	s.metrics.Registry.MustRegister(l.refused, l.ended, leaseCollector{l})
	return l
}

// fits reports why the key would get no lease.
func (l *leased) fits(key string) leases.Refusal { return l.set.Fits(l.settings().Leases, key) }

// add gives out a lease of the work for so long. The ID is random, so that
// another's cannot be guessed. A lease keeps the place among its key's requests that the request
// for it has.
func (l *leased) add(key string, w *work.Work, maxTokens int, timeout time.Duration, of *access.Held) (string, leases.Refusal) {
	now := l.clock()
	x := leases.Lease[leasedWork]{
		ID: randomID(), Key: key, Replica: w.Replica, Tokens: w.Held(), Taken: now, Until: now + timeout,
		Work: leasedWork{Work: w, most: l.mostOutput(w, maxTokens), key: of.Holder()},
	}
	// The timer may not fire before it is known to the lease.
	ready := make(chan struct{})
	defer close(ready)
	x.Work.timer = time.AfterFunc(timeout, func() {
		<-ready
		if gone, ok := l.set.Remove(x.ID); ok {
			l.settleLease(gone, work.Expired, 0, leaseExpired)
		}
	})
	of.Keep(true)
	if why := l.set.Add(l.settings().Leases, x); why != leases.None {
		of.Keep(false)
		x.Work.timer.Stop()
		return "", why
	}
	return x.ID, leases.None
}

// end ends the lease for the key that took it, and returns its work. Report notes on that what
// the caller says of the answer, and returns its length. It reports false if there is no such
// lease, or it is another's.
func (l *leased) end(id, key string, report func(*work.Work) (tokens int)) (*work.Work, work.Result, bool) {
	x, ok := l.set.End(id, key)
	if !ok {
		return nil, work.Result{}, false
	}
	r, ok := l.settleLease(x, work.Completed, min(report(x.Work.Work), x.Work.most), leaseEnded)
	return x.Work.Work, r, ok
}

// settleLease ends the work of a lease that has been taken out.
func (l *leased) settleLease(x leases.Lease[leasedWork], outcome work.Outcome, tokens int, how string) (work.Result, bool) {
	x.Work.timer.Stop()
	r, ok := l.settle(x.Work.Work, outcome, tokens)
	if x.Work.key != nil {
		x.Work.key.End()
	}
	l.ended.WithLabelValues(how).Inc()
	return r, ok
}

// close ends all leases, and gives out no more.
func (l *leased) close() {
	for _, x := range l.set.Close() {
		l.settleLease(x, work.Expired, 0, leaseClosed)
	}
}

// mostOutputTokens bounds what a caller may report where neither its request nor the
// replica's memory does.
const mostOutputTokens = 1 << 17

// mostOutput bounds the length that the caller may report: its own max_tokens, and
// what the replica's memory can hold in addition to the prompt.
func (l *leased) mostOutput(w *work.Work, maxTokens int) int {
	most := mostOutputTokens
	if memory := l.table.Replicas[w.Replica].KVTokens; memory > 0 {
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

// leaseTime is how long the lease of the work lives, at most serving.lease_timeout.
func (s *Server) leaseTime(w *work.Work, maxTokens int) time.Duration {
	most := s.settings().LeaseTimeout
	tokens := float64(maxTokens)
	if maxTokens == 0 {
		tokens = leaseLengths * s.queue.Output()
	}
	if tokens == 0 {
		return most
	}
	pace := float64(s.table.Tasks[w.Request.Task].Allowed(w.Request.Deadline)) * max(1, w.Pace)
	if t := float64(leaseMargin) + 2*tokens*pace; t < float64(most) {
		return time.Duration(t)
	}
	return most
}

// noLease answers a request that gets no lease, and returns the status.
func (s *Server) noLease(c *gin.Context, why leases.Refusal) int {
	s.leases.refused.WithLabelValues(string(why)).Inc()
	switch why {
	case leases.Closed:
		s.notReady(c, "shutting down")
		return http.StatusServiceUnavailable
	case leases.Off:
		s.fail(c, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "leases_off", Message: "this router gives out no leases (serving.leases.enabled)"})
		return http.StatusNotFound
	}
	const code = "lease_limit_exceeded"
	message := map[leases.Refusal]string{
		leases.Total:     "leases hold their share of the fleet (serving.leases.share); end those that are over, or try again later",
		leases.OfKey:     "the leases of this API key hold its share of the fleet (serving.leases.key_share); end those that are over, or try again later",
		leases.Anonymous: "leases without an API key hold their share of the fleet (serving.leases.anonymous_share); end those that are over, or try again later",
		leases.Replica:   "leases hold their share of the replica that would answer; try again later, or with a shorter prompt",
	}[why]
	c.Header(access.HeaderReason, code)
	c.Header("Retry-After", strconv.Itoa(int((s.settings().RetryAfter+time.Second-1)/time.Second)))
	s.fail(c, http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Code: wire.Optional(code), Message: message})
	return http.StatusTooManyRequests
}

// LeaseStatus is one lease as operators see it.
type LeaseStatus struct {
	ID string `json:"id"`
	// Key is the name of the API key that took it; empty without one.
	Key          string  `json:"key"`
	Task         string  `json:"task"`
	Variant      string  `json:"variant"`
	Replica      string  `json:"replica"`
	PromptTokens int     `json:"prompt_tokens"`
	AgeS         float64 `json:"age_s"`
	ExpiresS     float64 `json:"expires_s"`
}

// Leases is the body of GET /admin/leases, and of an order to revoke some: those that
// are held then.
type Leases struct {
	Leases  []LeaseStatus `json:"leases"`
	Revoked int           `json:"revoked"`
}

// Leases is the leases that are held.
func (s *Server) Leases() Leases {
	out := Leases{Leases: []LeaseStatus{}}
	now := s.clock()
	for _, x := range s.leases.set.List() {
		w := x.Work
		out.Leases = append(out.Leases, LeaseStatus{
			ID: x.ID, Key: x.Key, Task: s.table.Tasks[w.Request.Task].Name,
			Variant: s.table.Variants[w.Variant].Name, Replica: s.table.Replicas[w.Replica].Name,
			PromptTokens: w.Request.PromptTokens, AgeS: (now - x.Taken).Seconds(), ExpiresS: max(0, x.Until-now).Seconds(),
		})
	}
	return out
}

// RevokeLeases takes back the places of the leases that f reports true of, by key
// and ID, and returns how many there were.
func (s *Server) RevokeLeases(f func(key, id string) bool) int {
	gone := s.leases.set.RemoveAll(func(x leases.Lease[leasedWork]) bool { return f(x.Key, x.ID) })
	for _, x := range gone {
		s.leases.settleLease(x, work.Expired, 0, leaseRevoked)
	}
	if len(gone) > 0 {
		s.log.Info("leases revoked", "leases", len(gone), "by", byAdmin)
	}
	return len(gone)
}

var leasesDesc = prometheus.NewDesc("gearshift_leases", "Leases of the route endpoint that are held, by whether an API key took them.", []string{"holder"}, nil)

// leaseCollector counts the leases when metrics are scraped.
type leaseCollector struct{ *leased }

// Describe implements [prometheus.Collector].
func (l leaseCollector) Describe(out chan<- *prometheus.Desc) { out <- leasesDesc }

// Collect implements [prometheus.Collector].
func (l leaseCollector) Collect(out chan<- prometheus.Metric) {
	keyed, anonymous := 0.0, 0.0
	for _, x := range l.set.List() {
		if x.Key == "" {
			anonymous++
		} else {
			keyed++
		}
	}
	out <- prometheus.MustNewConstMetric(leasesDesc, prometheus.GaugeValue, keyed, "key")
	out <- prometheus.MustNewConstMetric(leasesDesc, prometheus.GaugeValue, anonymous, "anonymous")
}

// unseenOf is what leased work is assumed to hold in addition to its prompt.
func (s *Server) unseenOf(maxTokens int) int {
	if maxTokens > 0 {
		return min(maxTokens, int(s.queue.Output()))
	}
	return int(s.queue.Output())
}
