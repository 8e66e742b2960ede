package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// minToken is the fewest characters of a token: fewer can be guessed.
const minToken = 16

// secret is a token of the admin listener: that of operators, or that of the fleet.
type secret struct {
	name  string // in messages
	env   string // the variable that it came from
	sum   [sha256.Size]byte
	set   bool
	tries access.Tries // wrong ones
}

// newSecret refuses a token that could be guessed, or that no header can carry. Its sum is enough,
// reveals nothing of its length when it is compared, and cannot be printed by mistake. An empty token
// is never right.
func newSecret(name, env, token string) (*secret, error) {
	s := &secret{name: name, env: env, sum: sha256.Sum256([]byte(token)), set: token != ""}
	switch {
	case !s.set:
	case len(token) < minToken:
		return nil, fmt.Errorf("%s: the %s has %d characters; want at least %d, as from: openssl rand -hex 32", env, name, len(token), minToken)
	case !wire.Plain(token):
		return nil, fmt.Errorf("%s: the %s holds characters that no header can; want letters and digits, at most 128, as from: openssl rand -hex 32", env, name)
	}
	return s, nil
}

// right reports whether the request has the token.
func (s *secret) right(h http.Header) bool {
	sum := sha256.Sum256([]byte(wire.Bearer(h)))
	return s.set && subtle.ConstantTimeCompare(sum[:], s.sum[:]) == 1
}

// Guard lets operators in, and agents of engines to what they report. It keeps out who has no token,
// and pages of other sites.
type Guard struct {
	Options
	operators, fleet *secret
	lines            *config.LogLimiter // about wrong tokens
	wrong            prometheus.Counter
	// loopback says that only this machine can connect, under its own names.
	loopback bool
}

// NewGuard makes a Guard.
func NewGuard(o Options) (*Guard, error) {
	operators, err := newSecret("admin token", o.TokenEnv, o.Token)
	if err != nil {
		return nil, err
	}
	fleet, err := newSecret("fleet's token", o.FleetTokenEnv, o.FleetToken)
	if err != nil {
		return nil, err
	}
	if fleet.set && fleet.sum == operators.sum {
		return nil, fmt.Errorf("%s and %s hold the same token; want two, so that agents of engines cannot give orders to the router", o.TokenEnv, o.FleetTokenEnv)
	}
	o.Token, o.FleetToken = "", "" // nothing can print them
	g := &Guard{
		Options: o, operators: operators, fleet: fleet, lines: config.NewLogLimiter(),
		wrong: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gearshift_admin_unauthorized_total", Help: "Requests to the admin listener without its token.",
		}),
	}
	if host, _, err := net.SplitHostPort(o.Addr); err == nil {
		g.loopback = isLoopback(host)
	}
	return g, nil
}

// Metrics counts those who were kept out.
func (g *Guard) Metrics() prometheus.Collector { return g.wrong }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// SameOrigin keeps web pages of other sites away from an operator's browser. The
// token is in no cookie, so that a page of another site has no means to send it;
// this is the second bar. A page that makes its own name resolve to this machine
// (DNS rebinding) is known by that name in Host.
func (g *Guard) SameOrigin(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	if (g.loopback || access.Loopback(c.Request)) && !g.Rules().Local(c.Request.Host) {
		g.Fail(c, http.StatusForbidden, wire.Error{Type: wire.InvalidRequest, Code: "wrong_host", Message: access.WrongHost(c.Request, access.HostsKey)})
		return
	}
	if err := new(http.CrossOriginProtection).Check(c.Request); err != nil {
		g.Fail(c, http.StatusForbidden, wire.Error{
			Type: wire.InvalidRequest, Code: "cross_origin", Message: "the admin API takes no requests from pages of other sites",
		})
	}
}

// Authorise lets through who has the admin token, in the Authorization header and
// nowhere else: a URL would end up in logs, a cookie would be sent by itself.
func (g *Guard) Authorise(c *gin.Context) {
	if !g.operators.set {
		g.off(c, "admin_disabled", "the admin API is off", g.operators)
		return
	}
	client := g.client(c)
	if wait := g.operators.tries.Wait(client, g.Clock()); wait > 0 {
		c.Header("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		g.Fail(c, http.StatusTooManyRequests, wire.Error{
			Type: wire.RateLimit, Code: "too_many_tries", Message: "too many wrong admin tokens came from this address; try again later",
		})
		return
	}
	if !g.operators.right(c.Request.Header) {
		g.unauthorised(c, g.operators, "invalid_admin_token")
	}
}

// AuthoriseAgent lets through who has the fleet's token, as agents of engines do. The right token
// never waits for wrong ones: a guess at an agent's address must not silence it.
func (g *Guard) AuthoriseAgent(c *gin.Context) {
	switch {
	case !g.fleet.set:
		g.off(c, "agents_disabled", "this router takes no reports of agents", g.fleet)
	case !g.fleet.right(c.Request.Header):
		g.unauthorised(c, g.fleet, "invalid_fleet_token")
	}
}

// off answers where a token is not set.
func (g *Guard) off(c *gin.Context, code wire.Optional, what string, s *secret) {
	g.Fail(c, http.StatusForbidden, wire.Error{
		Type: wire.InvalidRequest, Code: code,
		Message: fmt.Sprintf("%s: start gearshift with a token in the environment variable %s, as from: openssl rand -hex 32", what, s.env),
	})
}

func (g *Guard) client(c *gin.Context) string {
	return g.Proxies().Client(c.Request.RemoteAddr, c.Request.Header["X-Forwarded-For"])
}

// AuthoriseReading is Authorise for what changes nothing: where no token is set,
// this machine may look.
func (g *Guard) AuthoriseReading(c *gin.Context) {
	if g.operators.set || !g.loopback {
		g.Authorise(c)
	}
}

// unauthorised answers a try without the token: the later, the more of them the client
// has made.
func (g *Guard) unauthorised(c *gin.Context, s *secret, code wire.Optional) {
	client := g.client(c)
	failed := s.tries.Hold(c.Request.Context(), client, g.Clock())
	g.wrong.Inc()
	// Of the tries of a client that goes on, those of which there are 1, 2, 4, 8 and so on get a line.
	if failed&(failed-1) == 0 && g.lines.Due(g.Clock()) {
		attributes := []any{"client", client, "method", c.Request.Method, "path", wire.Clipped(c.Request.URL.Path), "failed", failed}
		if n := g.lines.Omitted(); n > 0 {
			attributes = append(attributes, "lines_omitted", n)
		}
		g.Log.Warn("wrong "+s.name, attributes...)
	}
	c.Header("WWW-Authenticate", `Bearer realm="gearshift admin"`)
	g.Fail(c, http.StatusUnauthorized, wire.Error{
		Type: wire.InvalidRequest, Code: code,
		Message: fmt.Sprintf("want the %s, as in the router's %s: Authorization: Bearer TOKEN", s.name, s.env),
	})
}
