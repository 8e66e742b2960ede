package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/browser"
	"gearshift/serving/fields"
	"gearshift/serving/lograte"
	"gearshift/serving/tries"
	"gearshift/serving/wire"
)

// minToken is the fewest characters of an admin token: fewer can be guessed.
const minToken = 16

// checkToken refuses a token that could be guessed, or that no header can
// carry. No token at all is fine: then there are no admin actions.
func checkToken(token string) error {
	switch {
	case token == "":
		return nil
	case len(token) < minToken:
		return fmt.Errorf("the admin token has %d characters; want at least %d, as from: openssl rand -hex 32", len(token), minToken)
	case !fields.Plain(token):
		return errors.New("the admin token holds characters that no header can; want letters and digits, at most 128, as from: openssl rand -hex 32")
	}
	return nil
}

// Guard lets operators in. It keeps out who has no token, and pages of other sites.
type Guard struct {
	Options
	// token is the SHA-256 of the admin token: comparing sums reveals nothing of
	// its length either. It means nothing without set.
	token [sha256.Size]byte
	set   bool
	tries tries.Counter    // failed ones
	lines *lograte.Limiter // about them
	wrong prometheus.Counter
	// loopback says that only this machine can connect, under its own names.
	loopback bool
}

// NewGuard makes a Guard.
func NewGuard(o Options) (*Guard, error) {
	if err := checkToken(o.Token); err != nil {
		return nil, fmt.Errorf("%s: %w", o.TokenEnv, err)
	}
	sum, set := sha256.Sum256([]byte(o.Token)), o.Token != ""
	o.Token = "" // the sum is enough, and nothing can print it
	g := &Guard{
		Options: o, token: sum, set: set, lines: lograte.New(),
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
	if (g.loopback || browser.Loopback(c.Request)) && !g.Rules().Local(c.Request.Host) {
		g.Fail(c, http.StatusForbidden, wire.Error{Type: wire.InvalidRequest, Code: "wrong_host", Message: browser.WrongHost(c.Request)})
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
	if !g.set {
		g.Fail(c, http.StatusForbidden, wire.Error{
			Type: wire.InvalidRequest, Code: "admin_disabled",
			Message: fmt.Sprintf("the admin API is off: start gearshift with a token in the environment variable %s, as from: openssl rand -hex 32", g.TokenEnv),
		})
		return
	}
	client := g.Proxies().Client(c.Request.RemoteAddr, c.Request.Header["X-Forwarded-For"])
	if wait := g.tries.Wait(client, g.Clock()); wait > 0 {
		c.Header("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		g.Fail(c, http.StatusTooManyRequests, wire.Error{
			Type: wire.RateLimit, Code: "too_many_tries", Message: "too many wrong admin tokens came from this address; try again later",
		})
		return
	}
	sum := sha256.Sum256([]byte(fields.Bearer(c.Request.Header)))
	if subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 {
		g.tries.Succeeded(client)
		return
	}
	g.unauthorised(c, client)
}

// AuthoriseReading is Authorise for what changes nothing: where no token is set,
// this machine may look.
func (g *Guard) AuthoriseReading(c *gin.Context) {
	if g.set || !g.loopback {
		g.Authorise(c)
	}
}

// unauthorised answers a try without the token: the later, the more of them the client
// has made.
func (g *Guard) unauthorised(c *gin.Context, client string) {
	failed, wait := g.tries.Failed(client, g.Clock())
	g.wrong.Inc()
	if g.lines.Due(g.Clock()) {
		attributes := []any{"client", client, "method", c.Request.Method, "path", fields.Clipped(c.Request.URL.Path), "failed", failed}
		if n := g.lines.Omitted(); n > 0 {
			attributes = append(attributes, "lines_omitted", n)
		}
		g.Log.Warn("wrong admin token", attributes...)
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.Request.Context().Done():
		}
	}
	c.Header("WWW-Authenticate", `Bearer realm="gearshift admin"`)
	g.Fail(c, http.StatusUnauthorized, wire.Error{
		Type: wire.InvalidRequest, Code: "invalid_admin_token",
		Message: "want the admin token: Authorization: Bearer TOKEN",
	})
}
