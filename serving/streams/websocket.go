package streams

import (
	"context"
	"io"
	"net/http"

	"github.com/coder/websocket"

	"gearshift/serving/access"
)

// webSocket is a [connection] over a WebSocket: frames are its binary messages.
type webSocket struct{ *websocket.Conn }

// acceptWebSocket answers a client that asks for a WebSocket, or says what is wrong. Pinged is called at each of the client's
// pings, and reports whether it is to be answered.
func acceptWebSocket(w http.ResponseWriter, r *http.Request, pinged func() bool) (connection, error) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // of pages of other sites, which the server keeps out, as from all endpoints
		Subprotocols:       []string{access.Subprotocol}, OnPingReceived: func(context.Context, []byte) bool { return pinged() },
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1) // the session has limits, and the client hears of them
	return webSocket{conn}, nil
}

func (c webSocket) listen(take func(text bool, r io.Reader) error) {
	for {
		kind, r, err := c.Reader(context.Background())
		if err != nil || take(kind == websocket.MessageText, r) != nil {
			return
		}
	}
}

func (c webSocket) send(ctx context.Context, _ *Down, text []byte) error {
	return c.Write(ctx, websocket.MessageText, text)
}

func (c webSocket) close(s status) { _ = c.Close(websocket.StatusCode(s), "") }

func (c webSocket) abort() { _ = c.CloseNow() }
