package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// staleWithin is how soon a request on a connection that was closed while it waited is
// known to have gone nowhere.
const staleWithin = time.Second

// lost reports whether a request has gone nowhere whose kept connection broke before a byte of the
// answer: the server has closed it as the request came. If all of the request was sent, that
// shows soon; a server that takes longer may have worked on it, or be gone. Such a request can be
// sent again, and is no failure of the server's.
func lost(sent bool, after time.Duration) bool { return !sent || after <= staleWithin }

// bodyAgain is the body of a request that is sent again; nil if it has none. It reports false if
// there is no second copy.
func bodyAgain(r *http.Request) (io.ReadCloser, bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true
	}
	if r.GetBody == nil {
		return nil, false
	}
	body, err := r.GetBody()
	return body, err == nil
}

// try is the outcome of a request by an [http.Transport], which reports it from goroutines of
// its own.
type try struct {
	began    time.Time
	kept     atomic.Bool // its connection had been used
	sent     atomic.Bool // all of it
	answered atomic.Bool // by a byte at least
}

// trace reports to the try what is done in the context.
func (t *try) trace(ctx context.Context) context.Context {
	t.began = time.Now()
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { t.kept.Store(c.Reused) },
		WroteRequest:         func(w httptrace.WroteRequestInfo) { t.sent.Store(w.Err == nil) },
		GotFirstResponseByte: func() { t.answered.Store(true) },
	})
}

// lost is as the function of that name. The transport itself sends a POST again only if it could
// not begin to.
func (t *try) lost(err error) bool {
	return t.kept.Load() && !t.answered.Load() && broken(err) && lost(t.sent.Load(), time.Since(t.began))
}

// broken reports whether the error is of a connection that broke.
func broken(err error) bool {
	for _, known := range []error{syscall.EPIPE, syscall.ECONNRESET, syscall.ECONNABORTED, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe} {
		if errors.Is(err, known) {
			return true
		}
	}
	// The transport has errors of its own, without a name, for a connection that it found closed.
	return strings.Contains(err.Error(), "server closed idle connection") || strings.Contains(err.Error(), "connection broken")
}
