package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"gearshift/serving/wire"
)

// UpstreamConfig is one OpenAI-compatible server.
type UpstreamConfig struct {
	// URL is the server's base, with or without its /v1.
	URL string `yaml:"url"`
	// Key names the environment variable with the server's API key. Empty
	// sends none.
	Key string `yaml:"api_key_env"`
	// ForwardAuthorization lets the client's own credentials through. Without
	// it they end at the router.
	ForwardAuthorization bool `yaml:"forward_authorization"`
	// ConnectTimeout bounds the time to connect. Zero is 5 s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// HeaderTimeout bounds the wait for the answer to begin: the first event
	// of a stream, but the whole work of an answer in one piece. Zero is 10 min.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// IdleTimeout bounds every wait for more of an answer. Zero is 60 s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
}

// Upstream sends requests to an OpenAI-compatible server.
type Upstream struct {
	base      *url.URL
	key       string
	forward   bool
	idle      time.Duration
	transport *http.Transport
}

// ErrIdle is what reading an answer fails with when the server has fallen
// silent. It is a timeout, as [net.Error] has it.
var ErrIdle error = idleError{}

type idleError struct{}

func (idleError) Error() string   { return "the upstream server fell silent" }
func (idleError) Timeout() bool   { return true }
func (idleError) Temporary() bool { return true }

// NewUpstream checks the configuration and reads the key from the environment.
// It does not connect.
func NewUpstream(c UpstreamConfig) (*Upstream, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot use upstream %q: %w", c.URL, err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("cannot use upstream %q: it needs http:// or https:// and a host", c.URL)
	}
	base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/v1") + "/"
	u := &Upstream{base: base, forward: c.ForwardAuthorization, idle: positive(c.IdleTimeout, time.Minute)}
	if c.Key != "" {
		if u.key = os.Getenv(c.Key); u.key == "" {
			return nil, fmt.Errorf("cannot use upstream %q: its key is expected in the environment variable %s, which is empty", c.URL, c.Key)
		}
	}
	u.transport = &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: positive(c.ConnectTimeout, 5*time.Second)}).DialContext,
		TLSHandshakeTimeout:   positive(c.ConnectTimeout, 5*time.Second),
		ResponseHeaderTimeout: positive(c.HeaderTimeout, 10*time.Minute),
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		// Answers pass as they are: a compressed stream could not be metered.
		DisableCompression: true,
	}
	return u, nil
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Close lets go of the connections that no answer is using.
func (u *Upstream) Close() { u.transport.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper]. Only the path of the request's URL
// counts: it goes to the upstream server, whatever host it names.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	out := r.Clone(ctx)
	out.URL = u.base.JoinPath(r.URL.Path)
	out.URL.RawQuery = r.URL.RawQuery
	out.Host = ""
	u.prepare(out.Header)
	response, err := u.transport.RoundTrip(out)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	wire.StripHop(response.Header)
	response.Request = r
	response.Body = newIdleBody(ctx, cancel, response.Body, u.idle)
	return response, nil
}

// prepare leaves in the header what is meant for the server.
func (u *Upstream) prepare(h http.Header) {
	wire.StripHop(h)
	h.Del("Accept-Encoding")
	if !u.forward {
		for _, name := range []string{"Authorization", "Cookie", "Api-Key", "X-Api-Key"} {
			h.Del(name)
		}
	}
	if u.key != "" {
		h.Set("Authorization", "Bearer "+u.key)
	}
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", "gearshift")
	}
}

// idleBody is an answer's body that gives up when no byte arrives for a while.
// The connection is broken by cancelling the request, which is what wakes a
// blocked Read.
type idleBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
}

func newIdleBody(ctx context.Context, cancel context.CancelCauseFunc, b io.ReadCloser, idle time.Duration) *idleBody {
	timer := time.AfterFunc(idle, func() { cancel(ErrIdle) })
	return &idleBody{ReadCloser: b, ctx: ctx, cancel: cancel, idle: idle, timer: timer}
}

// Read implements io.Reader. The clock stands still while nobody reads: a slow
// client is not a silent server.
func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.idle)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), ErrIdle) {
		err = ErrIdle
	}
	return n, err
}

// Close implements io.Closer.
func (b *idleBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
