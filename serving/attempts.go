package serving

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// errGone is the cause of an attempt's end when the replica's host is gone.
var errGone = errors.New("nothing is there any more where the replica was")

// pending is the attempts at a replica of whose answers nothing has come yet. A host
// that vanishes says nothing: who waits there would wait until a timeout.
type pending struct {
	mu  sync.Mutex
	all map[*answer]struct{}
}

func (p *pending) add(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[*answer]struct{}{}
	}
	p.all[a] = struct{}{}
}

func (p *pending) remove(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, a)
}

// abandon ends them, so that they are tried elsewhere, and returns how many they are.
func (p *pending) abandon() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.all {
		a.cancel(errGone)
	}
	return len(p.all)
}

// attempt is the way to a replica for requests that an account is kept of: it
// counts them and, where they are traced, gives each its span, whose context the
// replica gets.
type attempt struct {
	http.RoundTripper
	server  *Server
	replica int
}

// RoundTrip implements [http.RoundTripper].
func (t attempt) RoundTrip(r *http.Request) (*http.Response, error) {
	a := accountOf(r.Context())
	if a == nil {
		return t.RoundTripper.RoundTrip(r)
	}
	n := a.attempted.Add(1)
	if !a.span.on() {
		return t.RoundTripper.RoundTrip(r)
	}
	r, span := a.attemptSpan(r, t.replica, int(n))
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		span.endAttempt(0, err)
		return response, err
	}
	response.Body = &spannedBody{ReadCloser: response.Body, end: func(err error) { span.endAttempt(response.StatusCode, err) }}
	return response, nil
}

// spannedBody ends a span with the body of an answer.
type spannedBody struct {
	io.ReadCloser
	once sync.Once
	end  func(error)
}

// Read implements [io.Reader].
func (b *spannedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.once.Do(func() { b.end(nil) })
	default:
		b.once.Do(func() { b.end(err) })
	}
	return n, err
}

// Close implements [io.Closer]. A body that is closed before its end was given up.
func (b *spannedBody) Close() error {
	b.once.Do(func() { b.end(errGivenUp) })
	return b.ReadCloser.Close()
}
