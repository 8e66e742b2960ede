package streams

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/quic-go/webtransport-go"
)

// peer is a connection of HTTP/3, which may have one session. It tells the session's streams from those of HTTP/3. The server
// of webtransport-go is not used: it keeps in memory all that a client sends on the stream of its request.
type peer struct {
	conn    *quic.Conn
	used    atomic.Bool // by a session
	waits   *waiting    // for that
	control chan *quic.Stream
	frames  chan *quic.ReceiveStream
}

// What streams of a session begin with, the setting that says there may be one, and the capsule that ends it.
const (
	bidirectional                          = 0x41
	unidirectional                         = 0x54
	sessionSetting                         = 0x2b603742
	sessionEnd           http3.CapsuleType = 0x2843
	sessionGone                            = webtransport.WTSessionGoneErrorCode
	mostCapsules                           = 64 << 10 // bytes that a client may send on the stream of its request
	sessionEndWriteLimit                   = 10 * time.Millisecond
)

// peerKey is where the context of a connection has it.
type peerKey struct{}

func newPeer(conn *quic.Conn) *peer {
	return &peer{conn: conn, control: make(chan *quic.Stream), frames: make(chan *quic.ReceiveStream)}
}

func (p *peer) end() { _ = p.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") }

// serve answers the connection until it or the context ends. It ends if it has no session in time.
func (p *peer) serve(ctx context.Context, h *http3.Server) {
	defer p.end()
	late := time.AfterFunc(sessionTime, func() {
		if !p.used.Load() {
			p.end()
		}
	})
	defer late.Stop()
	h.ConnContext = func(ctx context.Context, _ *quic.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, p)
	}
	raw, err := h.NewRawServerConn(p.conn)
	if err != nil {
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for s := range accepted(ctx, p.conn.AcceptUniStream) {
			all.Go(func() {
				if kind, err := quicvarint.Peek(s); err == nil && kind != unidirectional {
					raw.HandleUnidirectionalStream(s)
				} else if !begins(s) || !offered(p, p.frames, s) {
					s.CancelRead(sessionGone)
				}
			})
		}
	})
	for s := range accepted(ctx, p.conn.AcceptStream) {
		all.Go(func() {
			if kind, err := quicvarint.Peek(s); err == nil && kind != bidirectional {
				raw.HandleRequestStream(s)
			} else if !begins(s) || !offered(p, p.control, s) {
				s.CancelRead(sessionGone)
				s.CancelWrite(sessionGone)
			}
		})
	}
	p.end()
}

// accepted goes through what a connection accepts, until that or the context ends.
func accepted[S any](ctx context.Context, accept func(context.Context) (S, error)) func(func(S) bool) {
	return func(yield func(S) bool) {
		for {
			if s, err := accept(ctx); err != nil || !yield(s) {
				return
			}
		}
	}
}

// begins reads what a stream of a session begins with, its kind and the session.
func begins(r io.Reader) bool {
	_, kind := quicvarint.Read(quicvarint.NewReader(r))
	_, session := quicvarint.Read(quicvarint.NewReader(r))
	return kind == nil && session == nil
}

// offered hands a stream to the session, which may not have begun yet. It reports false if the connection ends first.
func offered[S any](p *peer, to chan<- S, s S) bool {
	select {
	case to <- s:
		return true
	case <-p.conn.Context().Done():
		return false
	}
}

// webTransportSession is the session of a connection, from its request on.
type webTransportSession struct {
	*peer
	request *http3.Stream
	over    context.Context // once it has ended
	ends    context.CancelFunc
	once    sync.Once
}

// upgrade begins the session.
func (p *peer) upgrade(w http.ResponseWriter, r *http.Request) (*webTransportSession, error) {
	if p.used.Swap(true) {
		return nil, errors.New("a connection has one session; want another connection")
	}
	if r.Proto != "webtransport" {
		return nil, fmt.Errorf("the protocol is %q; want webtransport", r.Proto)
	}
	client := w.(http3.Settingser)
	select {
	case <-client.ReceivedSettings():
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(sessionTime):
		return nil, errors.New("the client has sent no settings")
	}
	if !client.Settings().EnableDatagrams {
		return nil, errors.New("the client takes no datagrams")
	}
	p.waits.remove(p)
	w.WriteHeader(http.StatusOK)
	x := &webTransportSession{peer: p, request: w.(http3.HTTPStreamer).HTTPStream()}
	x.over, x.ends = context.WithCancel(p.conn.Context())
	go x.follow()
	return x, nil
}

// follow ends the session once its client does, or sends too much where it has nothing to say but that.
func (x *webTransportSession) follow() {
	r := quicvarint.NewReader(io.LimitReader(x.request, mostCapsules))
	for {
		kind, body, err := http3.ParseCapsule(r)
		if err == nil && kind != sessionEnd {
			_, err = io.Copy(io.Discard, body)
		}
		if err != nil || kind == sessionEnd {
			x.finish(0)
			return
		}
	}
}

// finish ends the session. What is sent meanwhile may be lost.
func (x *webTransportSession) finish(s status) {
	x.once.Do(func() {
		_ = x.request.SetWriteDeadline(time.Now().Add(sessionEndWriteLimit))
		if http3.WriteCapsule(quicvarint.NewWriter(x.request), sessionEnd, binary.BigEndian.AppendUint32(nil, uint32(s))) != nil {
			x.request.CancelWrite(sessionGone)
		}
		x.request.CancelRead(sessionGone)
		_ = x.request.Close()
		x.ends()
	})
}
