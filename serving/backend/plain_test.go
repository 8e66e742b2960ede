package backend

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/engines/address"
)

// plainTo is a plain whose connections are in memory: serve has the other end of
// each, by its number.
func plainTo(serve func(n int, conn net.Conn)) *plain {
	made := 0
	return newPlain(func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		n := made
		made++
		go func() {
			defer server.Close()
			serve(n, server)
		}()
		return client, nil
	}, carrierTo("upstream"))
}

func carrierTo(host string) carrier {
	server, err := address.Parse("http://" + host)
	if err != nil {
		panic(err)
	}
	r := &renewable{}
	r.Store(&http.Transport{})
	return carrier{&way{server: server}, r, newAddresses("")}
}

func plainRequest(ctx context.Context, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream"+ChatPath, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	return r
}

// hear reads a request, and returns its body.
func hear(in *bufio.Reader) (string, error) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

// whole sends a request and reads the answer.
func whole(rt http.RoundTripper, r *http.Request) (status int, header http.Header, body string, err error) {
	response, err := rt.RoundTrip(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(text), err
}

// Answers of all kinds, which [http.Transport] has to read alike.
func TestPlainReadsAsTheStandardDoes(t *testing.T) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nx-a: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-B\r\n\r\n2\r\n{}\r\n0\r\nX-B: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nuntil the end",
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 3<<20),
		"HTTP/1.1 200 OK\r\nX-A",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"nonsense\r\n\r\n",
		"",
	} {
		serve := func(_ int, conn net.Conn) {
			if _, err := hear(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, text)
			}
		}
		p := plainTo(serve)
		standard := &http.Transport{MaxResponseHeaderBytes: maxHeader, DialContext: p.dial}
		status, header, body, err := whole(p, plainRequest(t.Context(), "{}"))
		wantStatus, wantHeader, wantBody, wantErr := whole(standard, plainRequest(t.Context(), "{}"))
		if status != wantStatus || fmt.Sprint(header) != fmt.Sprint(wantHeader) || body != wantBody || (err == nil) != (wantErr == nil) {
			t.Errorf("%.80q:\n got %d %v %q, %v\nwant %d %v %q, %v", text, status, header, body, err, wantStatus, wantHeader, wantBody, wantErr)
		}
		p.CloseIdleConnections()
		standard.CloseIdleConnections()
	}
}

func TestPlainSendsAllOfARequest(t *testing.T) {
	for _, size := range []int{0, 1, gatherLimit, 10 * gatherLimit, plainLimit} {
		got := make(chan *http.Request, 1)
		p := plainTo(func(_ int, conn net.Conn) {
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				t.Error(err)
				return
			}
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			got <- r
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		})
		body := strings.Repeat("x", size)
		sent := plainRequest(t.Context(), body)
		sent.Header = http.Header{"X-Many": {"1", "2"}, "Content-Length": {"7"}, "Host": {"other"}, "Trailer": {"X"}, "Transfer-Encoding": {"chunked"}, "X-None": nil, "User-Agent": {"client"}}
		if _, _, _, err := whole(p, sent); err != nil {
			t.Fatal(err)
		}
		r := <-got
		if text, _ := io.ReadAll(r.Body); string(text) != body {
			t.Errorf("%d of %d bytes came", len(text), size)
		}
		if r.Host != "upstream" || r.URL.String() != ChatPath || r.ContentLength != int64(size) || len(r.TransferEncoding) > 0 || fmt.Sprint(r.Header) != fmt.Sprint(http.Header{"X-Many": {"1", "2"}, "User-Agent": {"client"}, "Accept-Encoding": {"identity"}, "Content-Length": {fmt.Sprint(size)}}) {
			t.Errorf("the server got %s for %s of %d bytes, %v", r.URL, r.Host, r.ContentLength, r.Header)
		}
		p.CloseIdleConnections()
	}
}

func TestPlainKeepsConnections(t *testing.T) {
	for answer, want := range map[string]int{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}":                            1,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n": 1,
		"HTTP/1.1 204 No Content\r\n\r\n":                                           1,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}":       3,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}and more":                    3,
	} {
		var used atomic.Int64
		p := plainTo(func(_ int, conn net.Conn) {
			used.Add(1)
			for in := bufio.NewReader(conn); ; {
				if _, err := hear(in); err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
			}
		})
		for range 3 {
			if _, _, _, err := whole(p, plainRequest(t.Context(), "{}")); err != nil {
				t.Fatal(err)
			}
		}
		if got := int(used.Load()); got != want {
			t.Errorf("%q: %d connections for three requests, want %d", answer, got, want)
		}
		p.CloseIdleConnections()
	}
}

// Only a connection that was kept may have been closed by a server that has not
// seen the request.
func TestPlainSendsAgainOnlyWhatAKeptConnectionLost(t *testing.T) {
	for _, c := range []struct {
		name string
		lost int // the connection that loses its second request, or −1: the first
		text string
		want string
		fail bool
	}{
		{"kept", 0, "", "0 0 1", false},
		{"new", -1, "", "0", true},
		{"begun to answer", 0, "HTTP/1.1 200", "0 0", true},
	} {
		var log []string
		p := plainTo(func(n int, conn net.Conn) {
			in := bufio.NewReader(conn)
			for i := 0; ; i++ {
				if _, err := hear(in); err != nil {
					return
				}
				log = append(log, fmt.Sprint(n))
				if c.lost < 0 || n == c.lost && i == 1 {
					_, _ = io.WriteString(conn, c.text)
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			}
		})
		_, _, _, err := whole(p, plainRequest(t.Context(), "{}"))
		if err == nil {
			_, _, _, err = whole(p, plainRequest(t.Context(), "{}"))
		}
		p.CloseIdleConnections()
		if got := strings.Join(log, " "); got != c.want || (err != nil) != c.fail {
			t.Errorf("%s: requests on the connections %s, error %v; want %s", c.name, got, err, c.want)
		}
	}
}

// A kept connection that ends late was not closed while it waited: the server may have
// worked on the request, or be gone.
func TestPlainSendsNothingAgainThatHasTakenLong(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		heard int32
	}{{time.Second / 2, 3}, {2 * time.Second, 2}} {
		synctest.Test(t, func(t *testing.T) {
			var heard atomic.Int32
			p := plainTo(func(_ int, conn net.Conn) {
				for in := bufio.NewReader(conn); ; {
					if _, err := hear(in); err != nil {
						return
					}
					if heard.Add(1) == 2 {
						time.Sleep(c.after)
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
				}
			})
			if _, _, _, err := whole(p, plainRequest(t.Context(), "{}")); err != nil {
				t.Fatal(err)
			}
			_, _, _, err := whole(p, plainRequest(t.Context(), "{}"))
			if again := c.heard == 3; heard.Load() != c.heard || (err == nil) != again {
				t.Errorf("closed after %v, the server heard %d requests, error %v", c.after, heard.Load(), err)
			}
			p.CloseIdleConnections()
		})
	}
}

func TestPlainEndsWithItsContext(t *testing.T) {
	gone := errors.New("gone")
	for _, text := range []string{"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"} {
		synctest.Test(t, func(t *testing.T) {
			noticed := make(chan error, 1)
			p := plainTo(func(_ int, conn net.Conn) {
				in := bufio.NewReader(conn)
				_, _ = hear(in)
				_, _ = io.WriteString(conn, text)
				_, err := in.ReadByte()
				noticed <- err
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(gone) })
			start := time.Now()
			if _, _, _, err := whole(p, plainRequest(ctx, "{}")); !errors.Is(err, gone) {
				t.Errorf("after %q: error %v", text, err)
			}
			if err := <-noticed; err != io.EOF || time.Since(start) != time.Second {
				t.Errorf("after %q: the server noticed %v after %v", text, err, time.Since(start))
			}
			if len(p.idle) > 0 {
				t.Errorf("after %q: the connection was kept", text)
			}
		})
	}
}

func TestPlainBreaksAnAnswerThatIsClosedEarly(t *testing.T) {
	noticed := make(chan error, 1)
	p := plainTo(func(_ int, conn net.Conn) {
		in := bufio.NewReader(conn)
		_, _ = hear(in)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
		_, err := in.ReadByte()
		noticed <- err
	})
	response, err := p.RoundTrip(plainRequest(t.Context(), "{}"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if err := <-noticed; err != io.EOF {
		t.Errorf("the server noticed %v", err)
	}
	if _, err := response.Body.Read(make([]byte, 1)); err == nil || len(p.idle) > 0 {
		t.Errorf("then reading gives %v; %d connections kept", err, len(p.idle))
	}
}

// A server that refuses a long body before it has read it, and closes.
func TestPlainHearsARefusalOfWhatItCannotSend(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, _ = bufio.NewReaderSize(conn, 16).ReadString('\n')
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
		conn.Close()
	}()
	p := newPlain(func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10) // so that the body does not fit
		}
		return conn, err
	}, carrierTo(l.Addr().String()))
	status, _, body, err := whole(p, plainRequest(t.Context(), strings.Repeat("x", plainLimit)))
	if err != nil || status != http.StatusRequestEntityTooLarge || body != "{}" {
		t.Errorf("status %d, %q, %v", status, body, err)
	}
	if len(p.idle) > 0 {
		t.Error("the connection was kept")
	}
}

func TestPlainLeavesTheRestToOthers(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"long":    func(r *http.Request) { r.ContentLength = plainLimit + 1 },
		"unsized": func(r *http.Request) { r.ContentLength = -1 },
		"expects": func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
	} {
		p := plainTo(func(int, net.Conn) {})
		passed := errors.New("passed on")
		p.otherwise.transport.Load().DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, passed }
		r := plainRequest(t.Context(), "{}")
		change(r)
		if _, err := p.RoundTrip(r); !errors.Is(err, passed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestPlainRefusesWhatIsNoHeader(t *testing.T) {
	p := plainTo(func(_ int, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for _, h := range []http.Header{{"X-A": {"1\r\nX-B: 2"}}, {"X A": {"1"}}, {"": {"1"}}, {"X-A": {"secret\x00"}}} {
		r := plainRequest(t.Context(), "{}")
		r.Header = h
		if _, err := p.RoundTrip(r); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: error %v", h, err)
		}
	}
	r := plainRequest(t.Context(), "{}")
	r.ContentLength = 3
	if _, err := p.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "said to have 3") {
		t.Errorf("error %v", err)
	}
}

func TestPlainClosesWhatNobodyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		p := plainTo(func(_ int, conn net.Conn) {
			open.Add(1)
			defer open.Add(-1)
			for in := bufio.NewReader(conn); ; {
				if _, err := hear(in); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			}
		})
		first, err := p.RoundTrip(plainRequest(t.Context(), "{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := whole(p, plainRequest(t.Context(), "{}")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(idleTime / 2)
		_, _ = io.Copy(io.Discard, first.Body)
		for _, want := range []int64{2, 1, 0} {
			if synctest.Wait(); open.Load() != want {
				t.Errorf("%d connections, want %d", open.Load(), want)
			}
			time.Sleep(idleTime/2 + time.Millisecond)
		}
	})
}

// A status below 100 is none that HTTP has, and no word that more is to come.
func TestAStatusThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plainTo(func(_ int, conn net.Conn) {
			_, _ = hear(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\nok")
			_, _ = io.Copy(io.Discard, conn) // says no more, and stays
		})
		began := time.Now()
		_, err := p.RoundTrip(plainRequest(t.Context(), "{}"))
		if err == nil || !strings.Contains(err.Error(), "099") || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
