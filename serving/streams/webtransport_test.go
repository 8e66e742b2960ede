package streams_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/quic-go/webtransport-go"

	"gearshift/serving/access"
	"gearshift/serving/streams"
)

// overWebTransport has rigs and their clients talk over WebTransport instead of WebSockets.
var overWebTransport bool

// What holds of sessions over WebSockets holds over WebTransport.
func TestOverWebTransport(t *testing.T) {
	overWebTransport = true
	defer func() { overWebTransport = false }()
	for name, test := range map[string]func(*testing.T){
		"served": TestClientsAreServed, "encodings": TestEncodings, "smaller sizes": TestClientsMoveToASmallerSize, "waiting": TestWhoDoesNotFitWaits,
		"a lost host": TestAHostIsLost, "faults": TestFaultsAreOfTheirSession, "silent": TestSilentClients, "vanishing": TestClientsThatVanish,
		"ever later": TestClientsThatComeEverLater,
	} {
		t.Run(name, test)
	}
}

// overHTTP3 runs a test of a rig that serves HTTP/3.
func overHTTP3(t *testing.T, keys string, test func(t *testing.T, g *rig), change ...func(*streams.Config)) {
	synctest.Test(t, func(t *testing.T) {
		overWebTransport = true
		defer func() { overWebTransport = false }()
		g := keyedRig(t, keys, change...)
		defer g.stop()
		test(t, g)
	})
}

// Over HTTP/3 the same keys and checks of pages hold as on the clients' port, and there is nothing but WebTransport.
func TestWebTransportIsGuarded(t *testing.T) {
	key, secret, err := access.NewKey("alice", access.Limits{}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, key.Line(), 0o600); err != nil {
		t.Fatal(err)
	}
	overHTTP3(t, keys, func(t *testing.T, g *rig) {
		for name, c := range map[string]struct {
			url    string
			header http.Header
			status int
		}{
			"no key":                {"https://127.0.0.1" + streams.Path, nil, http.StatusUnauthorized},
			"another key":           {"https://127.0.0.1" + streams.Path + "?key=gs-none", nil, http.StatusUnauthorized},
			"a key":                 {"https://127.0.0.1" + streams.Path, http.Header{"Authorization": {"Bearer " + secret}}, http.StatusOK},
			"a page's key":          {"https://127.0.0.1" + streams.Path + "?key=" + secret, http.Header{"Origin": {"http://127.0.0.1"}}, http.StatusOK},
			"another site's page":   {"https://127.0.0.1" + streams.Path + "?key=" + secret, http.Header{"Origin": {"https://evil.example"}}, http.StatusForbidden},
			"a name that was bound": {"https://evil.example" + streams.Path + "?key=" + secret, nil, http.StatusForbidden},
			"another endpoint":      {"https://127.0.0.1/v1/models?key=" + secret, nil, http.StatusMethodNotAllowed},
		} {
			session, response, err := g.session(c.url, c.header)
			if response == nil || response.StatusCode != c.status {
				t.Errorf("%s: %+v, %v; want status %d", name, response, err, c.status)
			}
			if session != nil {
				_ = session.CloseWithError(0, "")
			}
		}
		// WebSockets of pages bring their key as a subprotocol.
		for offered, status := range map[string]int{"gearshift.key." + secret: http.StatusSwitchingProtocols, "gearshift.key.none": http.StatusUnauthorized} {
			for origin, also := range map[string]int{"http://127.0.0.1": status, "https://evil.example": http.StatusForbidden} {
				conn, response, err := websocket.Dial(t.Context(), "http://127.0.0.1"+streams.Path, &websocket.DialOptions{HTTPClient: g.listener.Client(), HTTPHeader: http.Header{"Origin": {origin}}, Subprotocols: []string{"gearshift", offered}})
				if response == nil || response.StatusCode != also {
					t.Errorf("WebSocket with %.20s of %s: %v, %v; want status %d", offered, origin, response, err, also)
				}
				if conn != nil {
					if conn.Subprotocol() != "gearshift" {
						t.Errorf("subprotocol %q", conn.Subprotocol())
					}
					_ = conn.CloseNow()
				}
			}
		}
		time.Sleep(2 * time.Second)
	})
}

// A client has one frame on its way: a newer one replaces it, and half a frame is held for a while only. It can open no
// more streams than there may be.
func TestHalfFramesAreGivenUp(t *testing.T) {
	overHTTP3(t, "", func(t *testing.T, g *rig) {
		x := g.dialWebTransport(t)
		half := func() *webtransport.SendStream {
			s, err := x.OpenUniStream()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(streams.AppendHeader(make([]byte, 0, 6000), 1, 0)[:16]); err != nil {
				t.Fatal(err)
			}
			_, _ = s.Write(make([]byte, 6000))
			return s
		}
		half()
		synctest.Wait()
		one := g.Batches().Buffers().Usage().Held
		if one < 6000 || one > 20000 {
			t.Errorf("%d bytes are held for half a frame", one)
		}
		half()
		time.Sleep(100 * time.Millisecond)
		if held := g.Batches().Buffers().Usage().Held; held != one {
			t.Errorf("%d bytes are held when another frame has begun, %d for the first", held, one)
		}
		time.Sleep(3 * time.Second)
		if held := g.Batches().Buffers().Usage().Held; held != 0 {
			t.Errorf("%d bytes are held 3 s later", held)
		}
		open := 0
		for ; open < 100; open++ {
			if _, err := x.OpenUniStream(); err != nil { // of which the router has not heard, so that it ends none
				break
			}
		}
		if open < 16 || open > 35 { // 3 may be of HTTP/3
			t.Errorf("%d streams can be open at the same time", open)
		}
		if _, err := x.OpenStream(); err == nil {
			t.Error("another bidirectional stream can be opened")
		}
		_ = x.CloseNow()
		time.Sleep(3 * time.Second)
		g.released(t)
	})
}

// A connection without a session ends in a while, or if there are many: they keep nobody out.
func TestUnusedConnectionsEnd(t *testing.T) {
	overHTTP3(t, "", func(t *testing.T, g *rig) {
		var list []*quic.Conn
		var refused int
		for range 70 {
			conn, err := g.dialQUIC(t.Context(), "", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, &quic.Config{EnableDatagrams: true})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, conn)
		}
		time.Sleep(time.Second)
		for _, conn := range list {
			if conn.Context().Err() != nil {
				refused++
			}
		}
		if refused != 70-64 || list[0].Context().Err() == nil {
			t.Errorf("%d of 70 connections have ended; want the first 6", refused)
		}
		x := g.dialWebTransport(t)
		_ = x.CloseNow()
		time.Sleep(10 * time.Second)
		for _, conn := range list {
			if conn.Context().Err() == nil {
				t.Error("a connection without a session is open after 10 s")
				break
			}
		}
	}, func(c *streams.Config) { c.Clients = 2 })
}

// A client that resets its stream of messages has ended its session.
func TestResetStreams(t *testing.T) {
	overHTTP3(t, "", func(t *testing.T, g *rig) {
		x := g.dialWebTransport(t)
		_ = x.Write(t.Context(), websocket.MessageText, []byte(`{"type":"hello","sla":0.06}`))
		time.Sleep(time.Second)
		x.control.CancelWrite(0)
		time.Sleep(2 * time.Second)
		g.released(t)
		_ = x.CloseNow()
	})
}

// On the stream of its request a client has nothing to say but that its session ends: the router keeps none of it, and ends a
// session that sends much.
func TestCapsules(t *testing.T) {
	overHTTP3(t, "", func(t *testing.T, g *rig) {
		conn, err := g.dialQUIC(t.Context(), "", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, &quic.Config{EnableDatagrams: true})
		if err != nil {
			t.Fatal(err)
		}
		transport := http3.Transport{EnableDatagrams: true}
		s, err := transport.NewClientConn(conn).OpenRequestStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequest(http.MethodConnect, "https://127.0.0.1"+streams.Path, nil)
		r.Proto = "webtransport"
		if err := s.SendRequestHeader(r); err != nil {
			t.Fatal(err)
		}
		if a, err := s.ReadResponse(); err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", a, err)
		}
		if err := http3.WriteCapsule(quicvarint.NewWriter(s), 0x99, make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if conn.Context().Err() != nil {
			t.Fatal("the session has ended by a capsule that is unknown")
		}
		_, _ = s.Write(append([]byte{0x40, 0x99, 0xc0, 0, 1, 0, 0, 0, 0, 0}, make([]byte, 40<<10)...)) // of 2^40 bytes
		for n := 40; ; n += 10 {
			if _, err := s.Write(make([]byte, 10<<10)); err != nil {
				break
			} else if n > 1000 {
				t.Fatalf("%d KiB of a capsule are taken", n)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		g.released(t)
	})
}

// First packets, which may be from anywhere, take no more memory than those of some connections. Others can connect meanwhile.
func TestFirstPackets(t *testing.T) {
	overHTTP3(t, "", func(t *testing.T, g *rig) {
		before := runtime.NumGoroutine()
		for range 300 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			end := g.packets.Listen()
			transport := &quic.Transport{Conn: deaf{end, ctx}}
			_, _ = transport.Dial(ctx, g.packets.Addr(1), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, &quic.Config{})
			cancel()
			_, _ = end.Close(), transport.Close()
		}
		time.Sleep(100 * time.Millisecond)
		if more := runtime.NumGoroutine() - before; more > 500 {
			t.Errorf("%d goroutines more after 300 first packets", more)
		}
		x := g.dialWebTransport(t)
		_ = x.CloseNow()
		time.Sleep(15 * time.Second)
		g.released(t)
	})
}

// deaf is an end of the network that hears nothing.
type deaf struct {
	net.PacketConn
	until context.Context
}

func (d deaf) ReadFrom([]byte) (int, net.Addr, error) {
	<-d.until.Done()
	return 0, nil, net.ErrClosed
}

// Over a link that loses one packet in 50 a client is served all the same, without errors.
func TestLostPackets(t *testing.T) {
	overHTTP3(t, "", func(t *testing.T, g *rig) {
		random, fine := rand.New(rand.NewPCG(1, 1)), atomic.Bool{}
		g.packets.Lose = func() bool { return !fine.Load() && random.IntN(50) == 0 }
		c := g.stream(4, 0.06, nil)
		for i, x := range c.list[1:] { // which begin a little later
			x.Scene = scene{0.006, append(picture(32, 16), make([]byte, 3000*i)...)}
		}
		time.Sleep(6 * time.Second)
		for i, x := range c.list {
			if m := x.Measured(); m.Results < 50 || m.Served < 4*time.Second || m.Errors["late_frame"]+m.Errors["invalid_message"]+m.Errors["invalid_frame"] > 0 {
				t.Errorf("client %d: %d results of %d frames, served for %v, errors %v", i, m.Results, m.Sent, m.Served, m.Errors)
			}
		}
		fine.Store(true)
		c.stop()
		for i, err := range c.errs {
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		}
		time.Sleep(4 * time.Second)
		g.released(t)
	})
}

// The certificate that the router signs itself is such as browsers take by its hash: ECDSA, for two weeks at most. It is
// replaced in time, and a client takes no other.
func TestOwnCertificate(t *testing.T) {
	overHTTP3(t, "", func(t *testing.T, g *rig) {
		seen := map[string]bool{}
		for range 20 {
			conn, err := g.dialQUIC(t.Context(), "", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, &quic.Config{EnableDatagrams: true})
			if err != nil {
				t.Fatal(err)
			}
			c := conn.ConnectionState().TLS.PeerCertificates[0]
			_ = conn.CloseWithError(0, "")
			if _, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || c.NotAfter.Sub(c.NotBefore) > 14*24*time.Hour || c.NotAfter.Before(time.Now().Add(7*24*time.Hour)) || c.NotBefore.After(time.Now()) {
				t.Errorf("%T from %v to %v", c.PublicKey, c.NotBefore, c.NotAfter)
			}
			if err := c.CheckSignature(x509.ECDSAWithSHA256, c.RawTBSCertificate, c.Signature); err != nil {
				t.Error(err)
			}
			seen[c.SerialNumber.String()] = true
			time.Sleep(24 * time.Hour)
		}
		if len(seen) < 3 || len(seen) > 4 {
			t.Errorf("%d certificates in 20 days", len(seen))
		}
		x := g.stream(1, 0.06, nil)
		time.Sleep(time.Second)
		x.stop()
		if x.errs[0] != nil {
			t.Error(x.errs[0])
		}
		wrong := g.stream(1, 0.06, nil)
		wrong.list[0].HTTP = &http.Client{Transport: says(`{"webtransport":{"port":1,"certificate_sha256":"` + strings.Repeat("ab", 32) + `"}}`)}
		time.Sleep(time.Second)
		wrong.stop()
		if err := wrong.errs[0]; err == nil || !strings.Contains(err.Error(), "want abab") {
			t.Errorf("another certificate: %v", err)
		}
	})
}

// says answers requests so.
type says string

func (s says) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}

// rawConn is a connection of a client that says anything.
type rawConn interface {
	Read(context.Context) (websocket.MessageType, []byte, error)
	Write(context.Context, websocket.MessageType, []byte) error
	CloseNow() error
}

func (g *rig) dial(t testing.TB) rawConn {
	t.Helper()
	if overWebTransport {
		return g.dialWebTransport(t)
	}
	conn, _, err := websocket.Dial(context.Background(), "http://127.0.0.1"+streams.Path, &websocket.DialOptions{HTTPClient: g.listener.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// dialQUIC connects to the first end of the network of packets, from another one.
func (g *rig) dialQUIC(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
	end := g.packets.Listen()
	transport := &quic.Transport{Conn: end}
	conn, err := transport.Dial(ctx, g.packets.Addr(1), t, q)
	if err != nil {
		_ = transport.Close()
		_ = end.Close()
		return nil, err
	}
	context.AfterFunc(conn.Context(), func() { _ = transport.Close(); _ = end.Close() })
	return conn, nil
}

// transported is a [rawConn] over WebTransport.
type transported struct {
	*webtransport.Session
	control *webtransport.Stream
	lines   chan []byte
	over    chan struct{}
}

func (g *rig) session(url string, h http.Header) (*webtransport.Session, *http.Response, error) {
	d := webtransport.Dialer{DialAddr: g.dialQUIC, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	response, session, err := d.Dial(context.Background(), url, h)
	return session, response, err
}

func (g *rig) dialWebTransport(t testing.TB) *transported {
	t.Helper()
	session, _, err := g.session("https://127.0.0.1"+streams.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	control, err := session.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = control.Write(nil) // which opens it
	x := &transported{session, control, make(chan []byte, 1000), make(chan struct{})}
	go func() {
		defer close(x.over)
		lines := bufio.NewScanner(control)
		for lines.Scan() {
			x.lines <- append([]byte(nil), lines.Bytes()...)
		}
	}()
	go func() {
		for {
			text, err := session.ReceiveDatagram(session.Context())
			if err != nil {
				return
			}
			x.lines <- text
		}
	}()
	return x
}

func (x *transported) Read(context.Context) (websocket.MessageType, []byte, error) {
	select {
	case text := <-x.lines:
		return websocket.MessageText, text, nil
	case <-x.over:
	}
	select {
	case text := <-x.lines:
		return websocket.MessageText, text, nil
	default:
		return 0, nil, io.EOF
	}
}

func (x *transported) Write(_ context.Context, kind websocket.MessageType, b []byte) error {
	if kind == websocket.MessageText {
		_, err := x.control.Write(append(b, '\n'))
		return err
	}
	s, err := x.OpenUniStream()
	if err != nil {
		return err
	}
	_, _ = s.Write(b)
	return s.Close()
}

func (x *transported) CloseNow() error {
	err := x.CloseWithError(0, "")
	_ = x.control.SetDeadline(time.Now())
	return err
}
