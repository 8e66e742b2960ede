package serving

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/config"
	"gearshift/serving/fields"
	"gearshift/serving/keys"
	"gearshift/serving/wire"
)

// tenantKey is where gin's context holds the name of the client's key.
const tenantKey = "tenant"

// open reports whether the path needs no key. Those who ask are machines that watch
// this one.
func (s *Server) open(c *gin.Context) bool {
	path := c.Request.URL.Path
	if path == metricsPath {
		return s.settings().Metrics == config.MetricsOpen
	}
	return s.known.open[path] || s.known.open[c.FullPath()]
}

// clientMetrics are the metrics on the clients' port, unless they are off there.
func (s *Server) clientMetrics(c *gin.Context) {
	if s.settings().Metrics == config.MetricsOff {
		s.unknownPath(c)
		return
	}
	s.metrics.Handler().ServeHTTP(c.Writer, c.Request)
}

// credentials are the headers that clients send their key in. Bearer is
// OpenAI's way; the others are those of its look-alikes.
var credentials = []string{"Authorization", "X-Api-Key", "Api-Key"}

// unlock lets in who has a key, if keys are asked for, as often as its limits
// allow. It guards every path but the open ones, those that do not exist among
// them, so that none can be forgotten.
func (s *Server) unlock(c *gin.Context) {
	ring := s.live.Load().ring
	if ring == nil || s.open(c) {
		return
	}
	holder := identified(ring, c.Request.Header)
	if holder == nil {
		s.keyless.Inc()
		c.Header("WWW-Authenticate", `Bearer realm="gearshift"`)
		s.refuse(c, bad(http.StatusUnauthorized, "", "invalid_api_key", "no valid API key; send one as: Authorization: Bearer KEY"))
		return
	}
	c.Set(tenantKey, holder.Name)
	held := &heldKey{of: holder, kept: true} // there is nothing to give back yet
	c.Set(heldKeyName, held)
	if !s.makesWork(c) {
		return
	}
	verdict, wait := holder.Begin(s.clock)
	if verdict != keys.Accepted {
		s.exceeded(c, holder, verdict, wait)
		return
	}
	held.kept = false
	defer held.end()
	c.Next()
}

// identified is whose key the request brings. Where it stood is emptied: a key
// for this router is nobody else's business.
func identified(ring *keys.Ring, h http.Header) *keys.Holder {
	var found *keys.Holder
	for _, name := range credentials {
		secret := h.Get(name)
		if name == "Authorization" {
			secret = fields.Bearer(h)
		}
		if holder := ring.Find(secret); holder != nil && secret != "" {
			h.Del(name)
			if found == nil {
				found = holder
			}
		}
	}
	return found
}

// makesWork says whether limits count the request: the end of a lease, or of a response
// in the background, frees rather than takes, and what only tells is cheap.
func (s *Server) makesWork(c *gin.Context) bool {
	return c.Request.Method == http.MethodPost && !s.known.free[c.FullPath()]
}

// exceeded is the answer to more requests than a key may send.
func (s *Server) exceeded(c *gin.Context, h *keys.Holder, v keys.Verdict, wait time.Duration) {
	code, message := "rate_limit_exceeded", fmt.Sprintf("this API key may send %v requests per second", h.Limits().Rate)
	if v == keys.TooMany {
		code, message = "concurrency_limit_exceeded", fmt.Sprintf("this API key may have %d requests at the same time", h.Limits().Concurrency)
		wait = s.settings().RetryAfter
	}
	c.Header("X-Gearshift-Reason", code)
	c.Header("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	// The official clients wait by this one, which is finer.
	c.Header("Retry-After-Ms", strconv.FormatInt(max(1, int64(math.Ceil(float64(wait)/float64(time.Millisecond)))), 10))
	s.refuse(c, &refusal{http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Code: wire.Optional(code), Message: message}})
}

var (
	keyRequestsDesc = prometheus.NewDesc("gearshift_key_requests_total", "Requests by API key, and whether its limits let them pass: accepted, or refused for its rate or concurrency.", []string{"key", "result"}, nil)
	keyInFlightDesc = prometheus.NewDesc("gearshift_key_in_flight", "Requests of the API key in flight.", []string{"key"}, nil)
)

// keyCollector tells of the keys in force when metrics are scraped, so that the
// labels are those of the keys file.
type keyCollector struct{ *Server }

// Describe implements [prometheus.Collector].
func (k keyCollector) Describe(out chan<- *prometheus.Desc) {
	out <- keyRequestsDesc
	out <- keyInFlightDesc
	out <- keyTokensDesc
	out <- keyBudgetDesc
}

// Collect implements [prometheus.Collector].
func (k keyCollector) Collect(out chan<- prometheus.Metric) {
	for _, h := range k.live.Load().ring.Holders() {
		for _, v := range keys.Verdicts {
			out <- prometheus.MustNewConstMetric(keyRequestsDesc, prometheus.CounterValue, float64(h.Count(v)), h.Name, v.String())
		}
		out <- prometheus.MustNewConstMetric(keyInFlightDesc, prometheus.GaugeValue, float64(h.InFlight()), h.Name)
		tokens, refused := h.Used()
		out <- prometheus.MustNewConstMetric(keyTokensDesc, prometheus.CounterValue, float64(tokens), h.Name)
		out <- prometheus.MustNewConstMetric(keyBudgetDesc, prometheus.CounterValue, float64(refused), h.Name)
	}
}
