package serving_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

const kib, mib = 1 << 10, 1 << 20

// scarce has a server bounded to so many bytes of bodies, each of 1 MiB at most.
func scarce(bodies int64) func(*serving.Options) {
	return func(o *serving.Options) {
		o.Config.MaxBody, o.Config.Memory.Bodies = mib, bodies
		o.Config.BodyTimeout = time.Hour
	}
}

// wired serves the rig in memory until the test ends, and returns how to connect.
func wired(t *testing.T, g *rig) func() net.Conn {
	t.Helper()
	p := newPipes()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, p) }()
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() net.Conn {
		c, err := p.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		return c
	}
}

// upload is a client that sends a body of its own accord.
type upload struct {
	net.Conn
	answer chan *http.Response // once it has come
}

// announces sends the header of a request whose body is so long; below zero it comes in
// chunks.
func announces(t *testing.T, c net.Conn, length int) *upload {
	t.Helper()
	u := &upload{c, make(chan *http.Response, 1)}
	line := fmt.Sprintf("Content-Length: %d", length)
	if length < 0 {
		line = "Transfer-Encoding: chunked"
	}
	if _, err := io.WriteString(c, head("POST "+chat+" HTTP/1.1", line)); err != nil {
		t.Fatal(err)
	}
	go func() {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			u.answer <- r
		}
	}()
	return u
}

// sends sends so much of a body, which the server may refuse to take.
func (u *upload) sends(n int, chunked bool) {
	text := strings.Repeat(" ", n)
	if chunked {
		text = fmt.Sprintf("%x\r\n%s\r\n", n, text)
	}
	_, _ = io.WriteString(u.Conn, text)
}

// got is the status and code of the answer; "nothing" if none has come.
func (u *upload) got(t *testing.T) string {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-u.answer:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode == http.StatusOK {
			return "200"
		}
		if r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") == "" {
			t.Error("a refusal for want of memory does not say when to come back")
		}
		_, _, _, code := readError(t, body)
		return fmt.Sprint(r.StatusCode, " ", code)
	default:
		return "nothing"
	}
}

// whole is a body of so many bytes.
func whole(n int) string {
	return `{"model":"auto","messages":[` + strings.Repeat(" ", n-len(`{"model":"auto","messages":[]}`)) + `]}`
}

func (g *rig) memory(kind string) string {
	for _, line := range g.counted("gearshift_memory_bytes") {
		if at, held, ok := strings.Cut(line, "} "); ok && strings.Contains(at, `"`+kind+`"`) {
			return held
		}
	}
	return "0"
}

func TestWhatIsAnnouncedHoldsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, says(200, jsonType, fine), scarce(16*mib))
		connect := wired(t, g)
		for range 100 {
			announces(t, connect(), mib)
		}
		synctest.Wait()
		if small, large := g.memory("small_bodies"), g.memory("large_bodies"); small != fmt.Sprint(100*4*kib) || large != "0" {
			t.Errorf("100 bodies of which nothing has come hold %s and %s bytes", small, large)
		}
		if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
			t.Errorf("another request: %d %s", w.Code, w.Body)
		}
	})
}

func TestSlowSendersAreCutOff(t *testing.T) {
	for name, x := range map[string]struct {
		length        int
		slow, quicker int    // what they have sent after 20 seconds
		cut           string // what becomes of the quicker one
	}{
		"announced": {mib, 33 * kib, 465 * kib, "nothing"},
		"in chunks": {-1, 263 * kib, 765 * kib, "408 body_too_slow"}, // which takes twice the memory
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, says(200, jsonType, fine), scarce(2*mib)) // 1.5 MiB for large bodies
				connect := wired(t, g)
				slow, quicker := announces(t, connect(), x.length), announces(t, connect(), x.length)
				slow.sends(x.slow, x.length < 0)
				quicker.sends(x.quicker, x.length < 0)
				time.Sleep(20 * time.Second)

				quick := announces(t, connect(), mib)
				_, _ = io.WriteString(quick.Conn, whole(mib))
				for who, want := range map[*upload]string{slow: "408 body_too_slow", quicker: x.cut, quick: "200"} {
					if got := who.got(t); got != want {
						t.Errorf("a sender gets %s, want %s", got, want)
					}
				}
			})
		})
	}
}

func TestLargeBodiesLeaveRoomForOrdinaryRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, says(200, jsonType, fine), scarce(2*mib))
		connect := wired(t, g)
		first := announces(t, connect(), mib)
		first.sends(900*kib, false) // at once: nobody is slower
		second := announces(t, connect(), mib)
		second.sends(600*kib, false)
		if got := second.got(t); got != "503 out_of_memory" {
			t.Errorf("a large body beyond the budget gets %s", got)
		}
		for range 10 {
			if w := g.do("POST", chat, whole(32*kib)); w.Code != http.StatusOK {
				t.Fatalf("an ordinary request: %d %s", w.Code, w.Body)
			}
		}
		first.sends(mib-900*kib, false)
		if got := first.got(t); got != "400 invalid_json" { // it is nothing but spaces
			t.Errorf("the first large body gets %s", got)
		}
		if small, large := g.memory("small_bodies"), g.memory("large_bodies"); small != "0" || large != "0" {
			t.Errorf("%s and %s bytes are held by nobody", small, large)
		}
		if n := strings.Count(g.logs.String(), "memory for requests is short"); n != 1 {
			t.Errorf("%d lines of the log for one shortage: %s", n, g.logs)
		}
	})
}

func TestAnswersHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, says(200, jsonType, fine), func(o *serving.Options) {
			o.Config.Memory.Answers = mib // 32 requests
			o.Backends = hanging(t)
		})
		for range 32 {
			go g.do("POST", chat, ask)
		}
		synctest.Wait()
		w := g.do("POST", chat, ask)
		if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusServiceUnavailable || code != "out_of_memory" {
			t.Errorf("the next request: %d %s", w.Code, w.Body)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if held := g.memory("answers"); held != "0" {
			t.Errorf("%s bytes are held by nobody", held)
		}
	})
}

// hanging are backends that never answer.
func hanging(*testing.T) []serving.Backend {
	never := transport(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	})
	return []serving.Backend{{Transport: never}, {Transport: never}, {Transport: never}}
}
