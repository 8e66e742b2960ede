package streams

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/openai/wire"
)

// webSocket is a [connection] over a WebSocket: frames are its binary messages.
type webSocket struct {
	*websocket.Conn
	idle *allowance
}

// allowance says how many bytes a client may send that are of no message. The library reads fragments with nothing in them
// without end, and for nobody to see: some millions in a second take a processor.
type allowance struct{ left atomic.Int64 }

// What a client may send beside its messages: so many bytes at once, and again for each message, for each ping, and for each
// so many bytes of messages.
const (
	overhead  = 64 << 10
	ofMessage = 64
	ofPing    = 256
	ofBytes   = 4
)

var errOverhead = errors.New("more bytes around messages than in them")

// got notes that so many bytes of messages have come.
func (a *allowance) got(n int) { a.left.Store(min(overhead, a.left.Load()+int64(n+n/ofBytes))) }

// metered is a connection whose bytes count against an allowance.
type metered struct {
	net.Conn
	*allowance
}

// Read implements [net.Conn].
func (c metered) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if c.left.Add(int64(-n)) < -overhead {
		return n, errOverhead
	}
	return n, err
}

// hijacked has a connection that is taken over be metered.
type hijacked struct {
	http.ResponseWriter
	*allowance
}

// Hijack implements [http.Hijacker].
func (w hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, b, err := http.NewResponseController(w.ResponseWriter).Hijack()
	return metered{conn, w.allowance}, b, err
}

// WriteHeaderNow sends the status, which gin holds back otherwise.
func (w hijacked) WriteHeaderNow() {
	if g, ok := w.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		g.WriteHeaderNow()
	}
}

// messageReader notes what is read of a message.
type messageReader struct {
	io.Reader
	*allowance
}

// Read implements [io.Reader].
func (r messageReader) Read(b []byte) (n int, err error) {
	n, err = r.Reader.Read(b)
	r.got(n)
	return n, err
}

// acceptWebSocket answers a client that asks for a WebSocket, or says what is wrong. Pinged is called at each of the client's
// pings, and reports whether it is to be answered.
func acceptWebSocket(w http.ResponseWriter, r *http.Request, pinged func() bool) (connection, error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		err := errors.New("a stream is a WebSocket, or over HTTP/3 a WebTransport; see docs/offload.md")
		serving.Fail(w, r, http.StatusUpgradeRequired, wire.Error{Type: wire.InvalidRequest, Code: "no_websocket", Message: err.Error()})
		return nil, err
	}
	idle := new(allowance)
	conn, err := websocket.Accept(hijacked{w, idle}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // of pages of other sites, which the server keeps out, as from all endpoints
		Subprotocols:       []string{access.Subprotocol}, OnPingReceived: func(context.Context, []byte) bool { idle.got(ofPing); return pinged() },
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1) // the session has limits, and the client hears of them
	return webSocket{conn, idle}, nil
}

func (c webSocket) listen(take func(text bool, r io.Reader) error) {
	for {
		kind, r, err := c.Reader(context.Background())
		if err != nil {
			return
		}
		c.idle.got(ofMessage)
		if take(kind == websocket.MessageText, messageReader{r, c.idle}) != nil {
			return
		}
	}
}

func (c webSocket) send(ctx context.Context, _ *Down, text []byte) error {
	return c.Write(ctx, websocket.MessageText, text)
}

func (c webSocket) close(s status) { _ = c.Close(websocket.StatusCode(s), "") }

func (c webSocket) abort() { _ = c.CloseNow() }
