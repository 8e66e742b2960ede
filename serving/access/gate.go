// Package access decides who may use the clients' port: which web pages, by their origins (CORS),
// by which names a server on a loopback address may be called, and the clients that have a key, as
// often as its limits allow. Of keys only hashes are kept.
package access

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/openai/wire"
)

// Options are what a Gate is made of.
type Options struct {
	// Rules are what web pages may do, and the names of this machine.
	Rules func() *PageRules
	// Ring is the keys in force; nil lets anyone in.
	Ring func() *Ring
	// Open reports whether the request's path needs no key, Free whether limits of keys do
	// not count it.
	Open, Free func(c *gin.Context) bool
	// RetryAfter is the wait that a client with too many requests is asked for.
	RetryAfter func() time.Duration
	// Refuse answers a request that is itself at fault, NotFound one whose path is unknown.
	Refuse   func(c *gin.Context, status int, e wire.Error)
	NotFound gin.HandlerFunc
	Clock    func() time.Duration
}

// Gate lets requests in.
type Gate struct {
	Options
	keyless prometheus.Counter // requests without a valid key
}

// New makes a Gate.
func New(o Options) *Gate {
	return &Gate{Options: o, keyless: prometheus.NewCounter(prometheus.CounterOpts{Name: "gearshift_unauthorized_total", Help: "Requests without a valid API key."})}
}

// refuse answers a request that is itself at fault.
func (g *Gate) refuse(c *gin.Context, status int, code wire.Optional, message string) {
	g.Refuse(c, status, wire.Error{Type: wire.InvalidRequest, Code: code, Message: message})
}

// tenantName is where gin's context holds the name of the client's key.
const tenantName = "tenant"

// Tenant is the name of the client's key; empty without one.
func Tenant(c *gin.Context) string { return c.GetString(tenantName) }

// credentials are the headers that clients send their key in. Bearer is
// OpenAI's way; the others are those of its look-alikes.
var credentials = []string{"Authorization", "X-Api-Key", "Api-Key"}

// Unlock lets in who has a key, if keys are asked for, as often as its limits
// allow. It guards every path but the open ones, those that do not exist among
// them, so that none can be forgotten.
func (g *Gate) Unlock(c *gin.Context) {
	ring := g.Ring()
	if ring == nil || g.Open(c) {
		return
	}
	holder := identified(ring, c.Request.Header)
	if holder == nil {
		g.keyless.Inc()
		c.Header("WWW-Authenticate", `Bearer realm="gearshift"`)
		g.refuse(c, http.StatusUnauthorized, "invalid_api_key", "no valid API key; send one as: Authorization: Bearer KEY")
		return
	}
	c.Set(tenantName, holder.Name)
	held := &Held{of: holder, kept: true} // there is nothing to give back yet
	c.Set(heldName, held)
	if !g.makesWork(c) {
		return
	}
	verdict, wait := holder.Begin(g.Clock)
	if verdict != Accepted {
		g.exceeded(c, holder, verdict, wait)
		return
	}
	held.kept = false
	defer held.end()
	c.Next()
}

// identified is whose key the request brings. Where it stood is emptied: a key
// for this router is for no other server.
func identified(ring *Ring, h http.Header) *Holder {
	var found *Holder
	for _, name := range credentials {
		secret := h.Get(name)
		if name == "Authorization" {
			secret = wire.Bearer(h)
		}
		if holder := ring.Find(secret); holder != nil && secret != "" {
			h.Del(name)
			if found == nil {
				found = holder
			}
		}
	}
	if found == nil {
		found = offered(ring, h)
	}
	return found
}

// Subprotocol is that of the router's WebSockets. Pages, which can send no headers with one, offer another one that is their key
// after keyProtocol.
const (
	Subprotocol = "gearshift"
	keyProtocol = "gearshift.key."
)

// offered is whose key a page offers as a subprotocol of a WebSocket, which is taken out.
func offered(ring *Ring, h http.Header) (found *Holder) {
	const field = "Sec-Websocket-Protocol"
	var others []string
	for name := range strings.SplitSeq(strings.Join(h[field], ","), ",") {
		name = strings.TrimSpace(name)
		if secret, ok := strings.CutPrefix(name, keyProtocol); ok {
			found = cmp.Or(found, ring.Find(secret))
		} else if name != "" {
			others = append(others, name)
		}
	}
	if found != nil {
		h[field] = []string{strings.Join(others, ", ")}
	}
	return found
}

// exceeded is the answer to more requests than a key may send.
func (g *Gate) exceeded(c *gin.Context, h *Holder, v Verdict, wait time.Duration) {
	code, message := "rate_limit_exceeded", fmt.Sprintf("this API key may send %v requests per second", h.Limits().Rate)
	if v == TooMany {
		code, message = "concurrency_limit_exceeded", fmt.Sprintf("this API key may have %d requests at the same time", h.Limits().Concurrency)
		wait = g.RetryAfter()
	}
	c.Header(HeaderReason, code)
	c.Header("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	// The official clients wait by this one, which is finer.
	c.Header("Retry-After-Ms", strconv.FormatInt(max(1, int64(math.Ceil(float64(wait)/float64(time.Millisecond)))), 10))
	g.Refuse(c, http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Code: wire.Optional(code), Message: message})
}

// makesWork reports whether limits count the request: the end of a lease, or of a response
// in the background, frees rather than takes, and what only reads is cheap.
func (g *Gate) makesWork(c *gin.Context) bool {
	return c.Request.Method == http.MethodPost && !g.Free(c)
}

// Held is the place that a request has among those of its key.
type Held struct {
	of   *Holder
	kept bool // by a lease, which gives it back
}

// heldName is where gin's context holds it.
const heldName = "held-key"

// Of is the request's place; nil without a key.
func Of(c *gin.Context) *Held {
	held, _ := c.Get(heldName)
	h, _ := held.(*Held)
	return h
}

// Holder is whose key it is; nil without one.
func (h *Held) Holder() *Holder {
	if h == nil {
		return nil
	}
	return h.of
}

// Keep leaves the place to a lease, or takes it back.
func (h *Held) Keep(kept bool) {
	if h != nil {
		h.kept = kept
	}
}

// end gives the place back, unless a lease has it.
func (h *Held) end() {
	if !h.kept {
		h.of.End()
	}
}
