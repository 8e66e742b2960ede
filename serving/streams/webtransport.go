package streams

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"gearshift/serving"
	"gearshift/serving/openai/wire"
)

// webTransport is a [connection] over a WebTransport. JSON has a line each on the stream that the client opens first, and
// each frame a stream of its own. Schedules and results are datagrams if they fit.
type webTransport struct {
	*webTransportSession
	control *quic.Stream
}

// halfTime bounds how long a frame may take to come, from its first byte on.
const halfTime = 2 * time.Second

// acceptWebTransport answers a client that asks for a WebTransport, or says what is wrong.
func (m *Module) acceptWebTransport(w http.ResponseWriter, r *http.Request) (connection, error) {
	bad := func(err error) (connection, error) {
		serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "no_webtransport", Message: err.Error()})
		return nil, err
	}
	raw := w
	for {
		if _, ok := raw.(http3.HTTPStreamer); ok {
			break
		}
		under, ok := raw.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return bad(errors.New("CONNECT is for WebTransport, over HTTP/3"))
		}
		raw = under.Unwrap()
	}
	session, err := r.Context().Value(peerKey{}).(*peer).upgrade(raw, r)
	if err != nil {
		return bad(err)
	}
	limits := http.NewResponseController(w) // of a request; a session goes on
	_ = errors.Join(limits.SetReadDeadline(time.Time{}), limits.SetWriteDeadline(time.Time{}))
	select {
	case control := <-session.control:
		context.AfterFunc(session.over, func() {
			control.CancelRead(sessionGone)
			control.CancelWrite(sessionGone)
		})
		return &webTransport{session, control}, nil
	case <-session.over.Done():
	case <-time.After(sessionTime):
	}
	session.finish(statusWrong)
	return nil, errors.New("it has opened no stream for messages")
}

func (c *webTransport) listen(take func(text bool, r io.Reader) error) {
	var frames sync.WaitGroup
	frames.Go(func() { c.pictures(take) })
	lines := bufio.NewScanner(c.control)
	lines.Buffer(nil, mostText+2) // so that one more than there may be is taken, and refused
	for lines.Scan() && take(true, bytes.NewReader(lines.Bytes())) == nil {
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		_ = take(true, bytes.NewReader(make([]byte, mostText+1)))
	}
	c.abort()
	frames.Wait()
}

// pictures takes frames until the session ends, in the order in which they begin. A newer one ends the one before, if that has
// not come yet.
func (c *webTransport) pictures(take func(text bool, r io.Reader) error) {
	var all sync.WaitGroup
	defer all.Wait()
	var older *quic.ReceiveStream
	taken := make(chan struct{}) // the frame before
	close(taken)
	for {
		var s *quic.ReceiveStream
		select {
		case s = <-c.peer.frames:
		case <-c.over.Done():
		}
		if older != nil {
			older.CancelRead(0)
		}
		if older = s; s == nil {
			return
		}
		_ = s.SetReadDeadline(time.Now().Add(halfTime))
		before, now := taken, make(chan struct{})
		taken = now
		all.Go(func() {
			defer close(now)
			<-before
			if take(false, s) != nil {
				s.CancelRead(0)
			}
		})
	}
}

func (c *webTransport) send(ctx context.Context, d *Down, text []byte) error {
	if (d.Type == KindSchedule || d.Type == KindResult) && c.request.SendDatagram(text) == nil {
		return nil
	}
	if err := c.over.Err(); err != nil {
		return err
	}
	late, _ := ctx.Deadline()
	_ = c.control.SetWriteDeadline(late)
	_, err := c.control.Write(append(text, '\n'))
	return err
}

// close ends the stream of messages, upon which clients end the session, and ends it if they do not.
func (c *webTransport) close(s status) {
	_ = c.control.Close()
	select {
	case <-c.over.Done():
	case <-time.After(endTime):
	}
	c.finish(s)
}

func (c *webTransport) abort() { c.finish(0) }
