package serving_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// hostile is what a hostile client sends over a connection of its own.
type hostile struct {
	name string
	raw  string
	// want is what it gets, before the connection ends: for each answer its
	// status and error code, "text" where net/http itself refuses what it cannot
	// read as a request, and "ok" for a completion; or "nothing". Of one that is not
	// there to read it, empty.
	want string

	pace   time.Duration // between the bytes, if it is slow
	hangup bool          // it goes once it has sent all
	deaf   bool          // it reads nothing of the answer to its request
}

// TestHostileClients: each is refused cleanly, and nothing of it stays, while
// other clients are served.
func TestHostileClients(t *testing.T) {
	var cases []hostile
	for _, group := range [][]hostile{hostileLines(), hostileFraming(), hostileChunks(), hostileHeaders(), hostileBodies(), hostileTargets(), hostilePace()} {
		cases = append(cases, group...)
	}
	t.Logf("%d hostile clients", len(cases))
	if len(cases) < 200 {
		t.Errorf("%d cases, fewer than 200", len(cases))
	}
	names := map[string]bool{}
	for _, c := range cases {
		if names[c.name] {
			t.Errorf("two cases are named %q", c.name)
		}
		names[c.name] = true
	}
	slices.SortFunc(cases, func(a, b hostile) int { return strings.Compare(a.name, b.name) })
	synctest.Test(t, func(t *testing.T) {
		b := newBesieged(t)
		for _, c := range cases {
			b.meet(t, c)
		}
		b.end(t)
	})
}

// besieged is a server under normal load and hostile clients.
type besieged struct {
	*rig
	pipes *pipes
	stop  context.CancelFunc
	ended chan error
	load  chan error

	reached, served atomic.Int64 // requests that got to a replica: of hostile clients, of others
}

const ordinary = "X-Ordinary"

func newBesieged(t *testing.T) *besieged {
	b := &besieged{pipes: newPipes(), ended: make(chan error), load: make(chan error, 1)}
	b.rig = newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get(ordinary) != "" {
			b.served.Add(1)
		} else {
			b.reached.Add(1)
		}
		return says(http.StatusOK, jsonType, fine)(r)
	}), func(o *serving.Options) { o.Config.MaxBody = 1 << 20 })
	var ctx context.Context
	ctx, b.stop = context.WithCancel(t.Context())
	go func() { b.ended <- b.Serve(ctx, b.pipes) }()
	go func() { b.load <- b.ordinaries(ctx) }()
	return b
}

// ordinaries are served all the time.
func (b *besieged) ordinaries(ctx context.Context) error {
	client := b.pipes.client()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://router"+chat, strings.NewReader(ask))
		if err != nil {
			return err
		}
		r.Header.Set(ordinary, "yes")
		response, err := client.Do(r)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil && ctx.Err() == nil || err == nil && string(body) != fine {
			return fmt.Errorf("status %d, %v: %s", response.StatusCode, err, body)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// meet lets one hostile client try.
func (b *besieged) meet(t *testing.T, c hostile) {
	t.Helper()
	reached := b.reached.Load()
	got := b.try(t, c)
	synctest.Wait()
	if got != c.want {
		t.Errorf("%s: got %q, want %q", c.name, got, c.want)
	}
	want := strings.Count(c.want, "200 ok")
	if c.deaf {
		want = 1 // what follows waits until that is answered
	}
	if n := int(b.reached.Load() - reached); n != want {
		t.Errorf("%s: %d requests reached a replica, want %d", c.name, n, want)
	}
	if n := b.core.Ledger().InFlight(); n != 0 {
		t.Fatalf("%s: %d requests stay in flight", c.name, n)
	}
	select {
	case err := <-b.load:
		t.Fatalf("%s: an ordinary client fails: %v", c.name, err)
	default:
	}
}

// try sends what the client has, and sums up what comes back.
func (b *besieged) try(t *testing.T, c hostile) string {
	conn, err := b.pipes.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		send(conn, c)
	}()
	defer func() {
		conn.Close()
		<-sent
	}()
	// No answer is later than the slowest of the server's timeouts.
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if c.deaf || c.hangup {
		<-sent
		time.Sleep(40 * time.Second)
		return ""
	}
	var all []string
	for in := bufio.NewReader(conn); ; {
		if len(all) > 0 { // there may be more, but no need to wait long
			_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		}
		if _, err := in.Peek(1); err != nil {
			var timeout net.Error
			if len(all) == 0 && errors.As(err, &timeout) && timeout.Timeout() {
				return "silence"
			}
			break
		}
		method, _, _ := strings.Cut(c.raw, " ")
		r, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return fmt.Sprintf("%s then %v", strings.Join(all, ", "), err)
		}
		all = append(all, b.sum(t, c, r))
	}
	if all == nil {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

func send(conn net.Conn, c hostile) {
	if c.pace == 0 {
		_, _ = io.WriteString(conn, c.raw)
	}
	for i := 0; c.pace > 0 && i < len(c.raw); i++ {
		if _, err := io.WriteString(conn, c.raw[i:i+1]); err != nil {
			return
		}
		time.Sleep(c.pace)
	}
	if c.hangup {
		conn.Close()
	}
}

// sum is the answer in a word, once it is sound.
func (b *besieged) sum(t *testing.T, c hostile, r *http.Response) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	if len(body) > 4<<10 {
		t.Errorf("%s: an answer of %d bytes to a hostile client", c.name, len(body))
	}
	for _, name := range []string{"Set-Cookie", "X-Injected"} {
		if r.Header.Get(name) != "" {
			t.Errorf("%s: header %v", c.name, r.Header)
		}
	}
	status := fmt.Sprint(r.StatusCode)
	if id := r.Header.Get("X-Request-Id"); id == "" {
		if len(body) > 200 {
			t.Errorf("%s: %d without an ID: %s", c.name, r.StatusCode, body)
		}
		return status + " text"
	} else if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("%s: ID %q", c.name, id)
	}
	switch {
	case r.Request.Method == http.MethodHead:
		return status + " head"
	case string(body) == fine:
		return status + " ok"
	case r.StatusCode >= http.StatusBadRequest && len(body) > 0:
		_, _, _, code := readError(t, body)
		return status + " " + code
	}
	return status + " page"
}

// end stops the server, once ordinary clients have been served all along.
func (b *besieged) end(t *testing.T) {
	if b.served.Load() < 100 {
		t.Errorf("%d ordinary requests served", b.served.Load())
	}
	b.stop()
	if err := <-b.load; err != nil {
		t.Error(err)
	}
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
}
