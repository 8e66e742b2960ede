package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"

	"gearshift/router/health"
)

// Carrier sends one request to a replica and returns its answer, in place of the replica's backend: a gateway that
// asked for an endpoint. It sends once, so that the first attempt is the last.
type Carrier interface {
	// Hidden returns the replicas that the request may not use.
	Hidden() []int
	// Passes reports whether requests to a path that the router does not know go to a replica.
	Passes(path string) bool
	// Shows reports whether answers pass through the router, as far as is known.
	Shows() bool
	// Carry sends the request to the first of the replicas that the gateway reaches, and returns the head of the answer
	// and the replica that sent it; below 0 if the gateway does not report it. The error is [ErrUnseen] if the request
	// was sent and its answer does not pass through the router.
	Carry(replicas []int, r *http.Request) (answer *http.Response, by int, err error)
}

// ErrUnseen reports that a request was sent, and that its answer does not pass through the router.
var ErrUnseen = errors.New("the gateway does not show the answer")

// mostFallbacks limits the replicas that a carrier may try after the first.
const mostFallbacks = 2

// carrierKey is the context key of a request's carrier.
type carrierKey struct{}

// WithCarrier returns a context whose request the carrier sends.
func WithCarrier(ctx context.Context, c Carrier) context.Context {
	return context.WithValue(ctx, carrierKey{}, c)
}

// CarrierOf returns the carrier of a request; nil if the router sends it itself.
func CarrierOf(ctx context.Context) Carrier {
	c, _ := ctx.Value(carrierKey{}).(Carrier)
	return c
}

// Preparer is a [config.Backend]'s transport that can show a request as its server gets it.
type Preparer interface {
	// Prepare returns the URL and the header; ok is false without a server.
	Prepare(r *http.Request) (to url.URL, h http.Header, ok bool)
}

// Prepared changes the request to what the server behind the transport gets, and reports whether there is one.
func Prepared(t http.RoundTripper, r *http.Request) bool {
	p, ok := t.(Preparer)
	if !ok {
		return true
	}
	to, h, ok := p.Prepare(r)
	if ok {
		r.URL, r.Header = &to, h
	}
	return ok
}

// Carriable returns a transport that hands requests with a carrier to that.
func Carriable(t http.RoundTripper) http.RoundTripper { return carriable{t} }

type carriable struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t carriable) RoundTrip(r *http.Request) (*http.Response, error) {
	if x, ok := r.Context().Value(carriedKey{}).(carried); ok {
		return x.carry(r)
	}
	return t.RoundTripper.RoundTrip(r)
}

// carriedKey is the context key of a carrier's attempt.
type carriedKey struct{}

// carried is an attempt by the carrier.
type carried struct {
	*dispatch
	a *answer
}

// ErrNoServer fails a request that was not sent, like a refused connection, so that another replica is tried.
var ErrNoServer = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the replica has no server")}

// carry makes the attempt.
func (x carried) carry(r *http.Request) (*http.Response, error) {
	d, a := x.dispatch, x.a
	asked := *r
	if !Prepared(d.Ways[a.replica], r) {
		return nil, ErrNoServer
	}
	replicas := d.Work.Others(append(make([]int, 0, 1+mostFallbacks), a.replica), mostFallbacks)
	replicas = slices.DeleteFunc(replicas, func(i int) bool { return i != a.replica && !x.alike(i, asked, r) })
	if !d.carrier.Shows() {
		d.Work.Hide()
	}
	answer, by, err := d.carrier.Carry(replicas, r)
	if err == ErrUnseen {
		d.Work.Hide()
	}
	if err == nil && by >= 0 && by != a.replica {
		for _, i := range replicas[:max(0, slices.Index(replicas, by))] {
			d.Health.Failed(i, health.Connect, a.sent)
		}
		x.moved(by)
	}
	if answer != nil {
		answer.Request = r
	}
	return answer, err
}

// alike reports whether the replica gets the same request: with the same model, path, and credentials of the router.
func (x carried) alike(replica int, asked http.Request, as *http.Request) bool {
	return x.Backends[replica].Named() == x.a.model && Prepared(x.Ways[replica], &asked) &&
		asked.URL.RequestURI() == as.URL.RequestURI() && maps.EqualFunc(asked.Header, as.Header, slices.Equal)
}

// moved records that another replica than the picked one answers.
func (x carried) moved(to int) {
	a := x.a
	if !x.Work.Follow(to) { // it is out for its health, and answers
		x.Health.Succeeded(to, a.sent)
		a.reported = true
		return
	}
	a.pending.remove(a)
	a.replica, a.pending = to, &x.pending[to]
	a.pending.add(a, x.decided)
	x.tried = append(x.tried, to)
}
