package failover_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"gearshift/serving"
	"gearshift/serving/control/failover"
)

// drilled is a router whose first host is treated as lost, and its clients' port.
func drilled(t *testing.T) (*rig, *httptest.Server) {
	g := newRig(t)
	server := httptest.NewServer(g.server.Handler())
	t.Cleanup(server.Close)
	return g, server
}

func (g *rig) drill(host string) {
	g.t.Helper()
	if w := post(g.admin(), "/admin/failover/drill", map[string]string{"host": host}); w.Code != http.StatusOK {
		g.t.Errorf("drill: status %d, %s", w.Code, w.Body)
	}
}

// Each step comes as a server-sent event, with names for what it is of. A client that names the last
// one that it has gets the others.
func TestEvents(t *testing.T) {
	g, server := drilled(t)
	read := func(header, last, kind string) (id string, list []failover.Notice) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/gearshift/events", nil)
		r.Header.Set(header, last)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got := response.Header.Get("Content-Type"); got != "text/event-stream" || response.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %s", response.StatusCode, got)
		}
		if last == "" {
			go g.drill("h1") // once it is subscribed
		}
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				id = value
			case "event":
				if value == kind {
					defer cancel()
				}
			case "data":
				var n failover.Notice
				if err := json.Unmarshal([]byte(value), &n); err != nil {
					t.Fatal(err)
				}
				if list = append(list, n); n.Kind == kind {
					return id, list
				}
			}
		}
		t.Fatal("the stream has ended: ", lines.Err())
		return "", nil
	}
	_, list := read("X-None", "", "lost")
	lost := list[len(list)-1]
	if lost.Host != "h1" || lost.Reason != "it is a drill" || lost.Failover != 1 || lost.Time.IsZero() || lost.Term == 0 || list[len(list)-2].Kind != "drill" {
		t.Errorf("events %+v", list)
	}
	_, again := read("Last-Event-ID", "0", "affected")
	if first := again[0]; first.ID != first.Term*1_000_000+1 {
		t.Errorf("after 0 the first is %+v", first)
	}
	if a := again[len(again)-1]; a.Application != "one" || a.Full != 1 {
		t.Errorf("affected %+v, want application one", a)
	}
	for _, query := range []string{"after=x", "ping=x", "ping=1ms", "ping=2h"} {
		r, err := http.Get(server.URL + "/v1/gearshift/events?" + query)
		if err != nil || r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v; want 400", query, r, err)
		}
		_ = r.Body.Close()
	}
}

// TestEventsBetweenConnections: a client whose connection ends before there was any event comes back
// for all that happened since, with the ID that it got first.
func TestEventsBetweenConnections(t *testing.T) {
	g, server := drilled(t)
	address := server.URL + "/v1/gearshift/events"
	first := func(header, last string) (id string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		r.Header.Set(header, last)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok && id != last {
				return id
			}
		}
		t.Fatal("the stream has ended")
		return ""
	}
	var text []byte
	var last string
	for before := ""; before == "" || before != last; { // where the machine is busy, events happen meanwhile
		before = first("X-None", "")
		conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(address, "http"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, text, err = conn.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseNow()
		last = first("X-None", "")
	}
	if want := `{"id":` + last + `,"kind":"subscribed"}`; string(text) != want {
		t.Errorf("the first message is %s; want %s", text, want)
	}
	g.drill("h1")
	n, _ := strconv.Atoi(last)
	if next := first("Last-Event-ID", last); next != strconv.Itoa(n+1) {
		t.Errorf("after %s comes %s", last, next)
	}
}

// TestPings: a stream without events sends something at the interval that its client asks for, whatever the
// scenario has.
func TestPings(t *testing.T) {
	g := newRig(t, func(o *failover.Options, _ *serving.Options) { o.Ping = time.Hour })
	server := httptest.NewServer(g.server.Handler())
	t.Cleanup(server.Close)
	response, err := http.Get(server.URL + "/v1/gearshift/events?ping=100ms")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	pings := 0
	for lines := bufio.NewScanner(response.Body); pings < 3 && lines.Scan(); {
		if lines.Text() == ":" {
			pings++
		}
	}
	if pings < 3 {
		t.Errorf("%d pings", pings)
	}
}

// The same comes over a WebSocket, which ends when the router does.
func TestEventsOverWebSockets(t *testing.T) {
	g, server := drilled(t)
	url := "ws" + strings.TrimPrefix(server.URL, "http") + "/v1/gearshift/events?after=0"
	conn, response, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if response.Body != nil {
		_ = response.Body.Close()
	}
	g.drill("h2")
	for n := (failover.Notice{}); n.Kind != "lost"; {
		_, text, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &n); err != nil {
			t.Fatal(err)
		}
		if n.Kind == "lost" && n.Host != "h2" {
			t.Errorf("%+v, want that h2 is lost", n)
		}
	}
	g.server.Drain()
	for {
		if _, _, err = conn.Read(t.Context()); err != nil {
			break
		}
	}
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("it ends with %v, want that the router goes away", err)
	}
	// Pages of other sites get none.
	_, response, err = websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}})
	if err == nil || response == nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("%v, %v; want 403", response, err)
	}
}
