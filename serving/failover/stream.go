package failover

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"gearshift/serving"
	"gearshift/serving/wire"
)

// pulse is how often a stream without events sends something, so that what lies between does not
// take it for dead.
const pulse = 15 * time.Second

// sendTime is how long a subscriber may take for what it is sent.
const sendTime = 10 * time.Second

// events answers GET /v1/gearshift/events: each step of a failover as it happens, as server-sent
// events, or as messages of a WebSocket where the client asks for one. A client that names the last
// event that it has, in Last-Event-ID or ?after=ID, gets what came since first.
func (m *Module) events(w http.ResponseWriter, r *http.Request) {
	after := m.hub.newest()
	for _, text := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")} {
		if text == "" {
			continue
		}
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Param: "after", Code: "invalid_parameter", Message: fmt.Sprintf("the last event %q: want the number of one, such as 17", text)})
			return
		}
		after = id
	}
	if r.Header.Get("Upgrade") != "" {
		m.socket(w, r, after)
		return
	}
	m.sse(w, r, after)
}

// sse sends events until the client leaves or the server is to end.
func (m *Module) sse(w http.ResponseWriter, r *http.Request, after uint64) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c := http.NewResponseController(w)
	send := func(text []byte) error {
		_ = c.SetWriteDeadline(time.Now().Add(sendTime)) // a recorder has none
		if _, err := w.Write(text); err != nil {
			return err
		}
		err := c.Flush()
		_ = c.SetWriteDeadline(time.Time{}) // in HTTP/2 it would end the stream when it passes
		return err
	}
	w.WriteHeader(http.StatusOK)
	if send([]byte("retry: 500\n\n")) != nil {
		return
	}
	m.stream(r.Context(), after, func(x message) error {
		return send(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", x.id, x.kind, x.text))
	}, func() error { return send([]byte(":\n\n")) })
}

// socket sends events as messages of a WebSocket.
func (m *Module) socket(w http.ResponseWriter, r *http.Request, after uint64) {
	conn, err := websocket.Accept(w, r, nil) // which answers what is wrong, and keeps pages of other sites out
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	ctx := conn.CloseRead(r.Context()) // clients have nothing to say
	timed := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, sendTime)
		defer cancel()
		return f(ctx)
	}
	m.stream(ctx, after, func(x message) error {
		return timed(func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, x.text) })
	}, func() error { return timed(conn.Ping) })
	_ = conn.Close(websocket.StatusGoingAway, "the router is ending")
}

// stream hands the events to send until that fails, the context ends, or the server is to end.
func (m *Module) stream(ctx context.Context, after uint64, send func(message) error, idle func() error) {
	m.subscribers.Add(1)
	defer m.subscribers.Add(-1)
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for {
		list, more := m.hub.after(after)
		for _, x := range list {
			if send(x) != nil {
				return
			}
			after = x.id
		}
		select {
		case <-more:
		case <-beat.C:
			if idle() != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-m.server.Ending():
			return
		}
	}
}
