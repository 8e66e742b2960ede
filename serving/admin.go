package serving

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/browser"
	"gearshift/serving/config"
	"gearshift/serving/fields"
	"gearshift/serving/tries"
	"gearshift/serving/wire"
)

// minAdminToken is the fewest characters of an admin token: fewer can be guessed.
const minAdminToken = 16

// CheckAdminToken refuses a token that could be guessed, or that no header can
// carry. No token at all is fine: then there are no admin actions.
func CheckAdminToken(token string) error {
	switch {
	case token == "":
		return nil
	case len(token) < minAdminToken:
		return fmt.Errorf("the admin token has %d characters; want at least %d, as from: openssl rand -hex 32", len(token), minAdminToken)
	case !fields.Plain(token):
		return errors.New("the admin token holds characters that no header can; want letters and digits, at most 128, as from: openssl rand -hex 32")
	}
	return nil
}

// admin is the operator's side of a Server.
type admin struct {
	engine *gin.Engine
	// token is the SHA-256 of the admin token: comparing sums tells nothing of
	// its length either. It means nothing without set.
	token [sha256.Size]byte
	set   bool
	tries tries.Counter // failed ones
	lines *sparing      // about them
	wrong prometheus.Counter
	// loopback says that only this machine can connect, under its own names.
	loopback bool
}

func (s *Server) newAdmin(token string) (*admin, error) {
	if err := CheckAdminToken(token); err != nil {
		return nil, fmt.Errorf("%s: %w", s.config.Admin.TokenEnv, err)
	}
	a := &admin{token: sha256.Sum256([]byte(token)), set: token != "", lines: newSparing(), wrong: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gearshift_admin_unauthorized_total", Help: "Requests to the admin listener without its token.",
	})}
	s.books.registry.MustRegister(a.wrong)
	if host, _, err := net.SplitHostPort(s.config.Admin.Addr); err == nil {
		a.loopback = isLoopback(host)
	}
	return a, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// AdminHandler serves the operator's endpoints. Nothing of it is reachable
// through [Server.Handler].
func (s *Server) AdminHandler() http.Handler { return s.admin.engine }

// sameOrigin keeps web pages of other sites away from an operator's browser. The
// token is in no cookie, so that a page of another site has no means to send it;
// this is the second bar. A page that makes its own name resolve to this machine
// (DNS rebinding) is known by that name in Host.
func (s *Server) sameOrigin(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	if (s.admin.loopback || browser.Loopback(c.Request)) && !s.live.Load().browser.Local(c.Request.Host) {
		fault := wrongHost(c.Request)
		s.fail(c, fault.status, fault.Error)
		return
	}
	if err := new(http.CrossOriginProtection).Check(c.Request); err != nil {
		s.fail(c, http.StatusForbidden, wire.Error{
			Type: wire.InvalidRequest, Code: "cross_origin", Message: "the admin API takes no requests from pages of other sites",
		})
	}
}

// authorise lets through who has the admin token, in the Authorization header and
// nowhere else: a URL would end up in logs, a cookie would be sent by itself.
func (s *Server) authorise(c *gin.Context) {
	if !s.admin.set {
		s.fail(c, http.StatusForbidden, wire.Error{
			Type: wire.InvalidRequest, Code: "admin_disabled",
			Message: fmt.Sprintf("the admin API is off: start gearshift with a token in the environment variable %s, as from: openssl rand -hex 32", s.config.Admin.TokenEnv),
		})
		return
	}
	client := s.live.Load().proxies.Client(c.Request.RemoteAddr, c.Request.Header[headerForwardedFor])
	if wait := s.admin.tries.Wait(client, s.clock()); wait > 0 {
		c.Header("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		s.fail(c, http.StatusTooManyRequests, wire.Error{
			Type: wire.RateLimit, Code: "too_many_tries", Message: "too many wrong admin tokens came from this address; try again later",
		})
		return
	}
	sum := sha256.Sum256([]byte(bearer(c.Request.Header)))
	if subtle.ConstantTimeCompare(sum[:], s.admin.token[:]) == 1 {
		s.admin.tries.Succeeded(client)
		return
	}
	s.unauthorised(c, client)
}

// authoriseReading is authorise for what changes nothing: where no token is set,
// this machine may look.
func (s *Server) authoriseReading(c *gin.Context) {
	if s.admin.set || !s.admin.loopback {
		s.authorise(c)
	}
}

// unauthorised answers a try without the token: the later, the more of them the client
// has made.
func (s *Server) unauthorised(c *gin.Context, client string) {
	failed, wait := s.admin.tries.Failed(client, s.clock())
	s.admin.wrong.Inc()
	if s.admin.lines.due(s.clock()) {
		attributes := []any{"client", client, "method", c.Request.Method, "path", clipped(c.Request.URL.Path), "failed", failed}
		if n := s.admin.lines.left(); n > 0 {
			attributes = append(attributes, "lines_omitted", n)
		}
		s.log.Warn("wrong admin token", attributes...)
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
	s.fail(c, http.StatusUnauthorized, wire.Error{
		Type: wire.InvalidRequest, Code: "invalid_admin_token",
		Message: "want the admin token: Authorization: Bearer TOKEN",
	})
}

// bearer is the token of the Authorization header; empty without one.
func bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// ListenAdmin takes the admin address, for ServeAdmin; nil if that is off.
func (s *Server) ListenAdmin(ctx context.Context) (net.Listener, error) {
	if s.config.Admin.Addr == config.AdminOff {
		return nil, nil
	}
	l, err := listen(ctx, s.config.Admin.Addr)
	if err != nil {
		return nil, fmt.Errorf("%w; serving.admin.addr can be another address, or %s", err, config.AdminOff)
	}
	return l, nil
}

// adminGrace bounds the wait for requests of the admin API at shutdown.
const adminGrace = time.Second

// ServeAdmin serves the admin API until the context ends, which should be after
// the end of Serve, so that a drain can be watched. It closes the listener.
func (s *Server) ServeAdmin(ctx context.Context, l net.Listener) error {
	server := s.httpServer(s.admin.engine)
	failed := make(chan error, 1)
	encrypted := s.config.Admin.TLS.On()
	go func() { failed <- s.serveOn(server, l, encrypted, adminCertificate) }()
	addr := l.Addr().String()
	s.adminAddr.Store(&addr)
	s.log.Info("admin listening", "addr", addr, "tls", encrypted)
	if page := s.pageURL(); page != "" {
		s.log.Info("the page is at", "url", page)
	}
	if !s.admin.set {
		s.log.Warn("no admin token: the admin API refuses every action", "to_set_one", "export "+s.config.Admin.TokenEnv+"=$(openssl rand -hex 32)")
	}
	if !s.admin.loopback && !encrypted {
		s.log.Warn("the admin listener is open to other machines, and the token passes unencrypted", "addr", l.Addr().String())
	}
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve the admin API on %q: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminGrace)
	defer cancel()
	if server.Shutdown(wait) != nil {
		_ = server.Close() // what is left is cut off
	}
	<-failed
	return nil
}

// httpServer serves the handler, with bounds on what a connection may cost.
func (s *Server) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.config.HeaderTimeout,
		MaxHeaderBytes:    s.config.MaxHeader,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
