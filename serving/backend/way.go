package backend

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"gearshift/serving/engines/address"
)

// way is how requests get to a server: where that is, and what it sees of their headers.
type way struct {
	server  address.Server
	bearer  string // what it is to be authorized by; empty if that is nothing of the router's
	forward bool   // the client's own credentials
}

// userAgent is what requests without one say.
const userAgent = "gearshift"

// uncompressed asks for answers as they are: a compressed one could be metered only once it has
// been undone, see [decompress].
const uncompressed = "identity"

// to is where a request for the URL goes.
func (w *way) to(asked *url.URL) url.URL { return w.server.To(asked) }

// Prepare returns the URL and the header with which the server gets a request that a gateway sends there.
func (w *way) Prepare(r *http.Request) (to url.URL, h http.Header, ok bool) {
	return w.to(r.URL), w.header(r.Header), true
}

// sees says whether the server gets the client's field of that name.
func (w *way) sees(name string) bool {
	switch name {
	case "Accept-Encoding": // see uncompressed
		return false
	case "Authorization":
		return w.forward && w.bearer == ""
	case "Cookie", "Api-Key", "X-Api-Key":
		return w.forward
	}
	return true
}

// header is what the server gets, for an [http.Transport].
func (w *way) header(h http.Header) http.Header {
	out := make(http.Header, len(h)+4)
	for name, values := range h {
		if w.sees(name) {
			out[name] = values // which are never changed in place
		}
	}
	out["Accept-Encoding"] = []string{uncompressed}
	if w.bearer != "" {
		out["Authorization"] = []string{w.bearer}
	}
	if _, ok := h["User-Agent"]; !ok {
		out["User-Agent"] = []string{userAgent}
	}
	return out
}

// appendHeader writes the same as lines, except those of framing.
func (w *way) appendHeader(out []byte, h http.Header) ([]byte, error) {
	var err error
	for name, values := range h {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		if !w.sees(name) {
			continue
		}
		for _, value := range values {
			if out, err = appendField(out, name, value); err != nil {
				return nil, err
			}
		}
	}
	out = append(out, "Accept-Encoding: "+uncompressed+"\r\n"...)
	if w.bearer != "" {
		if out, err = appendField(out, "Authorization", w.bearer); err != nil {
			return nil, err
		}
	}
	if _, ok := h["User-Agent"]; !ok {
		out, err = appendField(out, "User-Agent", userAgent)
	}
	return out, err
}

func appendField(out []byte, name, value string) ([]byte, error) {
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return nil, fmt.Errorf("cannot send the header field %q: it holds what no header may", name) // the value may be secret
	}
	return append(append(append(append(out, name...), ": "...), value...), "\r\n"...), nil
}

// carrier sends requests that way by an [http.Transport].
type carrier struct {
	*way
	transport *renewable
	at        *addresses
}

// RoundTrip implements [http.RoundTripper]. A request that a kept connection has lost is sent
// again, on a connection of its own.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	var try try
	c.at.use(time.Now())
	transport := c.transport.Load()
	out := r.WithContext(try.trace(r.Context())) // a copy
	to := c.to(r.URL)
	out.URL, out.Host, out.Header = &to, address.Host(&to), c.header(r.Header)
	response, err := transport.RoundTrip(out)
	if err != nil && r.Context().Err() == nil && try.lost(err) {
		if body, again := bodyAgain(r); again {
			out = out.WithContext(r.Context())
			out.Body = body
			response, err = once(transport, out)
		}
	}
	if err != nil {
		return nil, err
	}
	response.Request = r
	return response, nil
}

func (c carrier) CloseIdleConnections() { c.transport.Load().CloseIdleConnections() }

const (
	// lookEvery sets how often the addresses of a server's name are looked up while it is used.
	lookEvery = 5 * time.Second
	// lookWithin bounds one lookup.
	lookWithin = 5 * time.Second
)

// addresses holds those that a server's name has. Connections to others are not kept: the name may
// have moved to another machine, which is the one that probes ask. While a lookup fails, what was
// found before counts.
type addresses struct {
	host   string // empty if there is nothing to look up
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	moved  func() // called when an address is gone

	now atomic.Pointer[[]netip.Addr] // nil until the first lookup

	mu    sync.Mutex // protects all below
	used  time.Time
	timer *time.Timer // nil while nothing is looked up
	ended bool
}

func newAddresses(host string) *addresses {
	if _, err := netip.ParseAddr(host); err == nil {
		host = ""
	}
	return &addresses{
		host: host, moved: func() {},
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
}

// use has the name looked up from now on, until it has not been used for the time that a
// connection is kept.
func (a *addresses) use(now time.Time) {
	if a.host == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used = now; a.timer == nil && !a.ended {
		a.timer = time.AfterFunc(0, a.look)
	}
}

func (a *addresses) look() {
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	if found, err := a.lookup(ctx, a.host); err == nil && len(found) > 0 {
		for i := range found {
			found[i] = plainAddr(found[i])
		}
		before := a.now.Swap(&found)
		if before != nil && slices.ContainsFunc(*before, func(x netip.Addr) bool { return !slices.Contains(found, x) }) {
			a.moved()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
	case time.Since(a.used) > idleTime:
		a.timer = nil
		a.now.Store(nil)
	default:
		a.timer.Reset(lookEvery)
	}
}

// stop ends the lookups.
func (a *addresses) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended = true; a.timer != nil {
		a.timer.Stop()
	}
}

// has reports whether the name still has the address, as far as that is known.
func (a *addresses) has(x netip.Addr) bool {
	list := a.now.Load()
	return list == nil || !x.IsValid() || slices.Contains(*list, x)
}

// addressOf returns where the connection leads; the zero value of one in memory.
func addressOf(conn net.Conn) netip.Addr {
	if to, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return plainAddr(to.AddrPort().Addr())
	}
	return netip.Addr{}
}

// plainAddr returns the address in the one form in which it is compared.
func plainAddr(x netip.Addr) netip.Addr { return x.Unmap().WithZone("") }

// renewable is an [http.Transport] that another replaces when its connections are not to be used
// any more. Answers under way are not cut off.
type renewable struct{ atomic.Pointer[http.Transport] }

func (r *renewable) renew() {
	old := r.Load()
	r.Store(old.Clone())
	old.CloseIdleConnections() // those in use follow at their end
}
