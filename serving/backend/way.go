package backend

import (
	"fmt"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpguts"

	"gearshift/serving/address"
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
	transport *http.Transport
}

// RoundTrip implements [http.RoundTripper]. A request that a kept connection has lost is sent
// again, on a connection of its own.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	var try try
	out := r.WithContext(try.trace(r.Context())) // a copy
	to := c.to(r.URL)
	out.URL, out.Host, out.Header = &to, "", c.header(r.Header)
	response, err := c.transport.RoundTrip(out)
	if err != nil && r.Context().Err() == nil && try.lost(err) {
		if body, again := bodyAgain(r); again {
			out = out.WithContext(r.Context())
			out.Body = body
			response, err = once(c.transport, out)
		}
	}
	if err != nil {
		return nil, err
	}
	response.Request = r
	return response, nil
}

func (c carrier) CloseIdleConnections() { c.transport.CloseIdleConnections() }
