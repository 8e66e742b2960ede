package backend

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const wellAnswered = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

// TestCaseStaleConnection has an engine that closes a kept connection as a request comes on it:
// the request is answered on another, whether it is short or long, with TLS or without, and
// wherever in it the connection breaks.
func TestCaseStaleConnection(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, size := range []int{100, 1_000_000, 2_000_000, 4_000_000} {
			for _, reads := range []int{0, 1, 64 << 10} { // before it closes
				t.Run(fmt.Sprintf("tls=%v/%d/%d", secure, size, reads), func(t *testing.T) {
					engine := closesKept(t, secure, min(reads, size))
					body := strings.Repeat("x", size)
					for i := range 20 {
						if status, text := answer(t, engine.upstream, ChatPath, body); status != http.StatusOK || text != "{}" {
							t.Fatalf("request %d: status %d, %q", i, status, text)
						}
					}
					if got := engine.answered.Load(); got != 20 {
						t.Errorf("the engine answered %d times", got)
					}
				})
			}
		}
	}
}

// closing is an engine that takes one request on each connection, and closes it when another comes.
type closing struct {
	upstream *Upstream
	answered atomic.Int64
}

func closesKept(t *testing.T, secure bool, reads int) *closing {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, scheme := &closing{}, "http"
	if secure {
		scheme = "https"
		pair := httptest.NewUnstartedServer(nil)
		pair.StartTLS() // for its certificate
		config := &tls.Config{Certificates: pair.TLS.Certificates}
		pair.Close()
		l = tls.NewListener(l, config)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(conn, reads)
		}
	}()
	if c.upstream, err = NewUpstream(UpstreamConfig{URL: scheme + "://" + l.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	c.upstream.transport.Load().DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, network, addr)
	}
	t.Cleanup(func() {
		c.upstream.Close()
		l.Close()
		<-ended
	})
	return c
}

func (c *closing) serve(conn net.Conn, reads int) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 16)
	if _, err := hear(in); err != nil {
		return
	}
	c.answered.Add(1)
	if _, err := io.WriteString(conn, wellAnswered); err != nil {
		return
	}
	if reads > 0 {
		_, _ = io.CopyN(io.Discard, in, int64(reads))
		return
	}
	_, _ = in.Peek(1)
}

// What a connection has lost is sent again once, and only if it was kept, and no byte of an
// answer had come: whatever way the request goes to the server.
func TestOnlyWhatAKeptConnectionLostIsSentAgain(t *testing.T) {
	all := func(in *bufio.Reader) { _, _ = hear(in) }
	part := func(in *bufio.Reader) { _, _ = in.Peek(1) }
	for _, c := range []struct {
		name    string
		first   bool // the first request is lost, else the second
		reads   func(*bufio.Reader)
		after   time.Duration
		says    string
		each    bool // connection loses a request
		conns   int
		answers int
	}{
		{"all of it", false, all, 0, "", false, 2, 2},
		{"all of it, soon", false, all, time.Second / 2, "", false, 2, 2},
		{"all of it, late", false, all, 2 * time.Second, "", false, 1, 1},
		{"a part", false, part, 0, "", false, 2, 2},
		{"a part, late", false, part, 2 * time.Second, "", false, 2, 2},
		{"on a new connection", true, all, 0, "", false, 1, 0},
		{"a part, on a new connection", true, part, 0, "", false, 1, 0},
		{"begun to answer", false, all, 0, "HTTP/1.1 200", false, 1, 1},
		{"answered in part", false, all, 0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", false, 1, 1},
		{"on the second connection too", false, all, 0, "", true, 2, 1},
	} {
		for _, size := range []int{2, 2 * plainLimit} {
			synctest.Test(t, func(t *testing.T) {
				conns := 0
				p := plainTo(func(n int, conn net.Conn) {
					conns = n + 1
					in := bufio.NewReaderSize(conn, 16) // so that a part is one
					for i := 0; ; i++ {
						if n == 0 && (c.first || i == 1) || n > 0 && c.each {
							c.reads(in)
							time.Sleep(c.after)
							if c.says != "" {
								_, _ = io.WriteString(conn, c.says)
							}
							return
						}
						if _, err := hear(in); err != nil {
							return
						}
						_, _ = io.WriteString(conn, wellAnswered)
					}
				})
				p.otherwise.transport.Load().DialContext = p.dial
				answers := 0
				for range 2 {
					_, _, text, err := whole(p, plainRequest(t.Context(), strings.Repeat("x", size)))
					if err != nil {
						break
					}
					if text == "{}" {
						answers++
					}
				}
				p.CloseIdleConnections()
				synctest.Wait()
				if conns != c.conns || answers != c.answers {
					t.Errorf("%s, %d bytes: %d connections and %d answers, want %d and %d", c.name, size, conns, answers, c.conns, c.answers)
				}
			})
		}
	}
}
