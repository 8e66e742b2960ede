package backend

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"gearshift/serving/engines/address"
)

const (
	// maxHeader bounds the header of an answer.
	maxHeader = 1 << 20
	// gatherLimit is what of a request is gathered to be sent at once.
	gatherLimit = 8 << 10
	// onceLimit replaces gatherLimit for a connection with one request, which has no body.
	onceLimit = 512
)

// errNoAnswer is in the error of a request of whose answer no byte has come,
// because the connection was closed.
var errNoAnswer = errors.New("the server closed the connection without an answer")

// link is one connection of a [plain], with one request at a time.
type link struct {
	owner *plain
	conn  net.Conn
	to    netip.Addr
	in    *bufio.Reader
	left  int64     // bytes that may be read for now
	out   []byte    // gathered, not yet sent
	sent  error     // why not all could be sent
	two   [2][]byte // what flush sends
	both  net.Buffers
	since time.Time // when it began to wait for a request
	wake  func()    // breaks whatever waits for the connection
	brief bool      // the connection carries one request
}

func newLink(owner *plain, conn net.Conn, gather int) *link {
	l := &link{owner: owner, conn: conn, to: addressOf(conn), out: make([]byte, 0, gather)}
	l.in = bufio.NewReader((*bounded)(l))
	l.wake = func() { _ = conn.SetDeadline(time.Unix(1, 0)) }
	return l
}

// bounded is the reading side of a link.
type bounded link

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the server's header exceeds %d bytes", maxHeader)
	}
	n, err := b.conn.Read(p)
	b.left -= int64(n)
	return n, err
}

// roundTrip sends the request with the body, and waits for the answer's header.
func (l *link) roundTrip(r *http.Request, body io.Reader) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), l.wake)
	response, err := l.exchange(r, body)
	if err != nil {
		stop()
		return nil, err
	}
	b := &linkBody{body: response.Body, link: l, stop: stop, ctx: r.Context(), last: response.Close || l.brief}
	if response.Body == http.NoBody {
		b.end()
	} else {
		response.Body = b
	}
	return response, nil
}

func (l *link) exchange(r *http.Request, body io.Reader) (*http.Response, error) {
	// A server may answer before it has read all, and close.
	if err := l.send(r, body); err != nil && l.sent == nil {
		return nil, err
	}
	l.left = maxHeader
	if _, err := l.in.Peek(1); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoAnswer, cmp.Or(l.sent, err))
	}
	for {
		response, err := http.ReadResponse(l.in, r)
		switch {
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server switched to a protocol that was not asked for")
		case response.StatusCode < http.StatusContinue: // none that HTTP has: nothing need follow
			return nil, fmt.Errorf("the server's status %q is not one of HTTP", response.Status)
		case response.StatusCode >= http.StatusOK:
			l.left = math.MaxInt64
			response.Close = response.Close || l.sent != nil
			return response, nil
		} // else it only says that it is at work
	}
}

// send writes the request.
func (l *link) send(r *http.Request, body io.Reader) error {
	to := l.owner.to(r.URL)
	out := append(l.out[:0], r.Method...)
	out = append(append(out, ' '), to.RequestURI()...)
	out = append(append(out, " HTTP/1.1\r\nHost: "...), address.Host(&to)...)
	if body != nil || r.Method == http.MethodPost {
		out = append(out, "\r\nContent-Length: "...)
		out = strconv.AppendInt(out, r.ContentLength, 10)
	}
	if l.brief {
		out = append(out, "\r\nConnection: close"...)
	}
	out, err := l.owner.appendHeader(append(out, "\r\n"...), r.Header)
	if err != nil {
		return err
	}
	l.out = append(out, "\r\n"...)
	if body != nil {
		n, err := io.Copy((*gathered)(l), body)
		if err == nil && n != r.ContentLength {
			err = fmt.Errorf("a body of %d bytes was said to have %d", n, r.ContentLength)
		}
		if err != nil {
			return err
		}
	}
	return l.flush(nil)
}

// gathered is the writing side of a link: what is short goes out together.
type gathered link

func (g *gathered) Write(p []byte) (int, error) {
	if len(g.out)+len(p) > cap(g.out) {
		return len(p), (*link)(g).flush(p)
	}
	g.out = append(g.out, p...)
	return len(p), nil
}

// flush sends what is gathered, and then p, in one call of the system.
func (l *link) flush(p []byte) error {
	switch {
	case len(p) > 0:
		l.two[0], l.two[1] = l.out, p
		l.both = l.two[:]
		_, l.sent = l.both.WriteTo(l.conn)
		l.two = [2][]byte{}
	case len(l.out) > 0:
		_, l.sent = l.conn.Write(l.out)
	}
	l.out = l.out[:0]
	return l.sent
}

// linkBody is the body of an answer, whose end gives the connection back.
type linkBody struct {
	body io.Reader
	link *link
	stop func() bool // no longer break the connection when the context ends
	ctx  context.Context
	last bool // no request can follow on this connection
	done atomic.Bool
	shut atomic.Bool // before its end
}

// Read implements [io.Reader].
func (b *linkBody) Read(p []byte) (int, error) {
	if b.shut.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.body.Read(p)
	if err == io.EOF {
		b.end()
	} else if err != nil {
		b.Close()
		err = because(b.ctx, err)
	}
	return n, err
}

// end comes after the last byte.
func (b *linkBody) end() {
	if b.done.Swap(true) {
		return
	}
	if !b.stop() || b.last || b.link.in.Buffered() > 0 {
		b.link.conn.Close()
		return
	}
	b.link.owner.keep(b.link)
}

// Close implements [io.Closer]. Before the end of the answer it breaks the
// connection, which makes the server stop. It may be called during a Read.
func (b *linkBody) Close() error {
	if b.done.Swap(true) {
		return nil
	}
	b.shut.Store(true)
	b.stop()
	return b.link.conn.Close()
}
