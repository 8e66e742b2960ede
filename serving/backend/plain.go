package backend

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"

	"gearshift/serving/engines/address"
)

// plainLimit bounds the bodies that plain sends. It reads nothing before it has
// sent all, so the refusal of a server that does not read a long body would be lost.
const plainLimit = 1 << 20

// maxIdle connections wait for a request, each at most idleTime.
const (
	maxIdle  = 256
	idleTime = 90 * time.Second
)

// plain sends requests to one server by plain HTTP/1.1, on the goroutine that
// asks. An [http.Transport] has two goroutines more for each connection, through
// which every request and answer goes; to a router in front of a quick server
// that is a good part of what it costs. Other requests go to otherwise.
//
// A request that a kept connection has lost, see [lost], is sent again on a new one.
type plain struct {
	*way
	addr      string // host:port
	dial      dial
	otherwise carrier

	mu    sync.Mutex  // protects all below
	idle  []*link     // the last used is the last
	sweep *time.Timer // closes those that have not been used; nil if there are none
	over  bool        // connections are no longer kept
}

// direct says that plain can send to the server: no TLS and no proxy.
func direct(base *url.URL) bool {
	proxy, err := address.Proxy(&http.Request{URL: base})
	return base.Scheme == "http" && proxy == nil && err == nil
}

type dial func(ctx context.Context, network, addr string) (net.Conn, error)

func newPlain(dial dial, otherwise carrier) *plain {
	base := &otherwise.server.Root
	return &plain{way: otherwise.way, addr: net.JoinHostPort(base.Hostname(), cmp.Or(base.Port(), "80")), dial: dial, otherwise: otherwise}
}

// RoundTrip implements [http.RoundTripper].
func (t *plain) RoundTrip(r *http.Request) (*http.Response, error) {
	unsized := r.Body != nil && r.Body != http.NoBody && r.ContentLength <= 0
	if unsized || r.ContentLength > plainLimit || r.Header["Expect"] != nil {
		return t.otherwise.RoundTrip(r)
	}
	response, err := t.roundTrip(r)
	if r.Body != nil {
		r.Body.Close()
	}
	return response, err
}

func (t *plain) roundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if l, ok := t.kept(); ok {
		sent := time.Now()
		response, err := l.roundTrip(r, r.Body)
		if err == nil {
			return response, nil
		}
		l.conn.Close()
		if ctx.Err() != nil || !errors.Is(err, errNoAnswer) || !lost(l.sent == nil, time.Since(sent)) {
			return nil, because(ctx, err)
		}
		body, again := bodyAgain(r)
		if !again {
			return nil, err
		}
		if body != nil {
			defer body.Close()
		}
		return t.onNew(r, body)
	}
	return t.onNew(r, r.Body)
}

// onNew sends the request on a new connection.
func (t *plain) onNew(r *http.Request, body io.Reader) (*http.Response, error) {
	ctx := r.Context()
	conn, err := t.dial(ctx, "tcp", t.addr)
	if err != nil {
		return nil, because(ctx, err)
	}
	response, err := newLink(t, conn, gatherLimit).roundTrip(r, body)
	if err != nil {
		conn.Close()
		return nil, because(ctx, err)
	}
	return response, nil
}

// once sends the request, which has no body, on a new connection that closes with the answer.
func (t *plain) once(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	conn, err := t.dial(ctx, "tcp", t.addr)
	if err != nil {
		return nil, because(ctx, err)
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: conn})
	}
	l := newLink(t, conn, onceLimit)
	l.brief = true
	response, err := l.roundTrip(r, nil)
	if err != nil {
		conn.Close()
		return nil, because(ctx, err)
	}
	return response, nil
}

// because is the cause of the context's end if it has ended, or else the error.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// kept is the connection used last of those that wait, if there is one. A server may
// have closed it meanwhile, or have said something unasked, as HAProxy
// does before it closes: that must not be taken for an answer. Nor is one kept to an address that
// the server's name no longer has.
func (t *plain) kept() (*link, bool) {
	for {
		l, ok := t.last()
		if !ok || l.quiet() && t.otherwise.at.has(l.to) {
			return l, ok
		}
		l.conn.Close()
	}
}

func (t *plain) last() (*link, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.idle) - 1
	if last < 0 {
		return nil, false
	}
	l := t.idle[last]
	t.idle[last] = nil
	t.idle = t.idle[:last]
	return l, true
}

// keep lets the connection wait for another request.
func (t *plain) keep(l *link) {
	l.since = time.Now()
	t.otherwise.at.use(l.since)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || len(t.idle) >= maxIdle {
		l.conn.Close()
		return
	}
	t.idle = append(t.idle, l)
	if t.sweep == nil {
		t.sweep = time.AfterFunc(idleTime, t.closeOld)
	}
}

func (t *plain) closeOld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep = nil
	old := 0
	for ; old < len(t.idle) && time.Since(t.idle[old].since) >= idleTime; old++ {
		t.idle[old].conn.Close()
	}
	if t.idle = slices.Delete(t.idle, 0, old); len(t.idle) > 0 {
		t.sweep = time.AfterFunc(idleTime-time.Since(t.idle[0].since), t.closeOld)
	}
}

// end closes idle connections, and those in use after their requests.
func (t *plain) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.CloseIdleConnections()
}

// CloseIdleConnections closes the connections that wait.
func (t *plain) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.idle {
		l.conn.Close()
	}
	t.idle = nil
	if t.sweep != nil {
		t.sweep.Stop()
		t.sweep = nil
	}
	t.otherwise.CloseIdleConnections()
}
