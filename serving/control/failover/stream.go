package failover

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"gearshift/serving"
	"gearshift/serving/openai/wire"
)

// pulse sets how often a stream without events sends something where nothing else is set.
const pulse = 15 * time.Second

// The bounds of the interval of pings, which keep what lies between from taking a stream without
// events for dead.
const shortestPing, longestPing = 100 * time.Millisecond, time.Hour

// sendTime is how long a subscriber may take for what it is sent.
const sendTime = 10 * time.Second

// subscription holds what a client wants of events.
type subscription struct {
	after uint64 // the last event that it has
	ping  time.Duration
}

// subscribed reads what the client wants: events from now on, or after the last one that it has, which
// it names in Last-Event-ID or ?after=ID.
func (m *Module) subscribed(r *http.Request) (subscription, *wire.Error) {
	s := subscription{m.hub.newest(), m.options.Ping}
	var err error
	wrong := func(param wire.Optional, format string, args ...any) *wire.Error {
		return &wire.Error{Type: wire.InvalidRequest, Param: param, Code: "invalid_parameter", Message: fmt.Sprintf(format, args...)}
	}
	for _, text := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")} {
		if text == "" {
			continue
		}
		if s.after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return s, wrong("after", "the last event %q: want the number of one, such as 17", text)
		}
	}
	if text := r.URL.Query().Get("ping"); text != "" {
		if s.ping, err = time.ParseDuration(text); err != nil || s.ping < shortestPing || s.ping > longestPing {
			return s, wrong("ping", "ping %q: want an interval from %v to %v, such as 5s", text, shortestPing, longestPing)
		}
	}
	return s, nil
}

// events answers GET /v1/gearshift/events: each step of a failover as it happens, as server-sent
// events, or as messages of a WebSocket where the client asks for one. The first thing that a client
// gets is the ID of the last event that it does not get: with that it can come back for all that
// follow, also where its connection ends before there was any.
func (m *Module) events(w http.ResponseWriter, r *http.Request) {
	s, fault := m.subscribed(r)
	if fault != nil {
		serving.Fail(w, r, http.StatusBadRequest, *fault)
		return
	}
	if r.Header.Get("Upgrade") != "" {
		m.socket(w, r, s)
		return
	}
	m.sse(w, r, s)
}

// sse sends events until the client leaves or the server is to end.
func (m *Module) sse(w http.ResponseWriter, r *http.Request, s subscription) {
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
	// An event without data is none to a client, but its ID counts.
	if send(fmt.Appendf(nil, "retry: 500\nid: %d\n\n", s.after)) != nil {
		return
	}
	m.stream(r.Context(), s, func(x message) error {
		return send(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", x.id, x.kind, x.text))
	}, func() error { return send([]byte(":\n\n")) })
}

// socket sends events as messages of a WebSocket.
func (m *Module) socket(w http.ResponseWriter, r *http.Request, s subscription) {
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
	send := func(text []byte) error {
		return timed(func(ctx context.Context) error { return conn.Write(ctx, websocket.MessageText, text) })
	}
	if send(fmt.Appendf(nil, `{"id":%d,"kind":"subscribed"}`, s.after)) != nil {
		return
	}
	m.stream(ctx, s, func(x message) error { return send(x.text) }, func() error { return timed(conn.Ping) })
	_ = conn.Close(websocket.StatusGoingAway, "the router is ending")
}

// stream hands the events to send until that fails, the context ends, or the server is to end.
func (m *Module) stream(ctx context.Context, s subscription, send func(message) error, idle func() error) {
	m.subscribers.Add(1)
	defer m.subscribers.Add(-1)
	beat := time.NewTicker(s.ping)
	defer beat.Stop()
	for {
		list, more := m.hub.after(s.after)
		for _, x := range list {
			if send(x) != nil {
				return
			}
			s.after = x.id
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
