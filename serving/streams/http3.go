package streams

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"gearshift/serving"
	"gearshift/serving/openai/wire"
)

// listener takes WebTransports over HTTP/3.
type listener struct {
	module *Module
	port   int
	signed signed
	open   atomic.Int64 // connections
	greets atomic.Int64 // handshakes that are not over
	unused waiting
	all    sync.WaitGroup // of them
}

// The bounds on a connection of HTTP/3, which has one session.
const (
	mostUnused     = 64               // connections without a session; of more the oldest ends
	mostUnproven   = 64               // handshakes at once; clients beyond show first that packets reach them, which costs them a turn
	mostGreets     = 1024             // handshakes at once
	sessionTime    = 10 * time.Second // for a connection to have its session
	deadTime       = 30 * time.Second // until one that acknowledges nothing is given up
	mostRequests   = 2                // bidirectional streams: the session's request, and its control stream
	mostFrames     = 32               // unidirectional streams of frames on their way; each newer one ends the one before
	mostHeader     = 16 << 10
	leastWindow    = 64 << 10 // bytes that may come before they are read
	endTime        = time.Second
	certificateAge = 6 * 24 * time.Hour  // at which the router signs another one
	certificateEnd = 13 * 24 * time.Hour // of its validity, which began a day earlier: browsers take two weeks at most
)

// ListenHTTP3 has clients of the configured UDP address answered; see [Module.ServeHTTP3]. Without one it does nothing.
func (m *Module) ListenHTTP3(ctx context.Context) (end func(), err error) {
	if m.HTTP3 == "" {
		return func() {}, nil
	}
	// quic-go would write to the standard error if the system gives sockets less than it likes.
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	var c net.ListenConfig
	conn, err := c.ListenPacket(ctx, "udp", m.HTTP3)
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // the rest of it repeats the address
	}
	var bad *net.AddrError
	var unknown *net.DNSError
	if errors.As(err, &bad) || errors.As(err, &unknown) {
		err = fmt.Errorf("%w; want HOST:PORT or :PORT, such as 127.0.0.1:8443", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on UDP %q: %w", m.HTTP3, err)
	}
	return m.ServeHTTP3(conn)
}

// ServeHTTP3 answers clients that open WebTransports with these packets, until end is called: then sessions that the module
// has not ended by then are, and conn is closed. It has the certificate of the clients' port, or else one that it signs
// itself and logs the SHA-256 of.
func (m *Module) ServeHTTP3(conn net.PacketConn) (end func(), err error) {
	l := &listener{module: m}
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		l.port = a.Port
	}
	hash, err := l.hash()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	window := uint64(m.MaxFrame + headerBytes + leastWindow)
	transport := &quic.Transport{Conn: conn, ConnContext: l.greet, VerifySourceAddress: func(net.Addr) bool { return l.greets.Load() >= mostUnproven }}
	accepting, err := transport.Listen(http3.ConfigureTLSConfig(&tls.Config{GetCertificate: l.certificate}), &quic.Config{
		EnableDatagrams: true, EnableStreamResetPartialDelivery: true, MaxIdleTimeout: deadTime, KeepAlivePeriod: deadTime / 3,
		MaxIncomingStreams: mostRequests, MaxIncomingUniStreams: mostFrames + 3, // which HTTP/3 has
		InitialStreamReceiveWindow: leastWindow, MaxStreamReceiveWindow: window, InitialConnectionReceiveWindow: leastWindow, MaxConnectionReceiveWindow: window,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot serve HTTP/3: %w", err), conn.Close())
	}
	m.listener.Store(l)
	m.Log.Info("listening for WebTransport", "addr", conn.LocalAddr().String(), "certificate_sha256", hash)
	serving, stop := context.WithCancel(context.Background())
	l.all.Go(func() { l.accept(serving, accepting) })
	return func() {
		m.listener.Store(nil)
		await(endTime, func() bool { return l.open.Load() == 0 })
		_ = accepting.Close()
		stop()
		l.all.Wait()
		_ = errors.Join(transport.Close(), conn.Close())
	}, nil
}

// await waits until over reports true, or for so long.
func await(most time.Duration, over func() bool) {
	for late := time.Now().Add(most); !over() && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
}

// accept takes connections until there are no more.
func (l *listener) accept(ctx context.Context, from *quic.Listener) {
	for {
		conn, err := from.Accept(ctx)
		if err != nil {
			return
		}
		conn.Context().Value(greetKey{}).(func())()
		if l.open.Add(1) > int64(l.module.Clients+mostUnused) {
			l.open.Add(-1)
			_ = conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeExcessiveLoad), "too many connections")
			continue
		}
		l.all.Go(func() {
			defer l.open.Add(-1)
			p := newPeer(conn)
			l.unused.add(p)
			defer l.unused.remove(p)
			p.serve(ctx, &http3.Server{
				Handler: http.HandlerFunc(l.serve), MaxHeaderBytes: mostHeader, EnableDatagrams: true, AdditionalSettings: map[uint64]uint64{sessionSetting: 1},
			})
		})
	}
}

// waiting has the connections that wait for their session, in the order in which they came.
type waiting struct {
	mu   sync.Mutex // protects the list
	list []*peer
}

// add has a connection wait, and ends the one that has waited longest if there are too many.
func (w *waiting) add(p *peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.waits = w
	if w.list = append(w.list, p); len(w.list) > mostUnused {
		w.list[0].end()
		w.list = w.list[1:]
	}
}

// remove has it wait no longer.
func (w *waiting) remove(p *peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = slices.DeleteFunc(w.list, func(o *peer) bool { return o == p })
}

// greetKey is where the context of a connection has the function that says its handshake is over.
type greetKey struct{}

// greet counts a handshake: a first packet from any address makes a connection, of 100 KiB for 5 s.
func (l *listener) greet(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	if l.greets.Add(1) > mostGreets {
		l.greets.Add(-1)
		return nil, errors.New("too many handshakes")
	}
	over := sync.OnceFunc(func() { l.greets.Add(-1) })
	context.AfterFunc(ctx, over)
	return context.WithValue(ctx, greetKey{}, over), nil
}

// serve hands a request to the endpoint, as the server does with those of the clients' port.
func (l *listener) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		serving.Fail(w, r, http.StatusMisdirectedRequest, wire.Error{Type: wire.InvalidRequest, Code: "webtransport_only", Message: "over HTTP/3 there is WebTransport at " + Path + " alone; all else is on the clients' port, over TCP"})
		return
	}
	q := r.URL.Query()
	if key := q.Get("key"); key != "" { // pages cannot send headers
		r.Header.Set("Authorization", "Bearer "+key)
		q.Del("key")
		r.URL.RawQuery = q.Encode()
	}
	l.module.server.Handler().ServeHTTP(w, r)
	if p := r.Context().Value(peerKey{}).(*peer); p.used.Load() {
		time.AfterFunc(endTime, p.end) // clients that have heard the end of their session are gone by then
	}
}

// certificate returns that of the clients' port, or the router's own.
func (l *listener) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := l.module.server.Certificate(); c != nil {
		return c, nil
	}
	return l.signed.current(time.Now())
}

// hash returns the SHA-256 of the certificate that the router has signed itself; empty if it has not.
func (l *listener) hash() (string, error) {
	if l.module.server.Certificate() != nil {
		return "", nil
	}
	c, err := l.signed.current(time.Now())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(c.Certificate[0])
	return hex.EncodeToString(sum[:]), nil
}

// signed is a certificate that the router signs itself, in the form that browsers take by its hash.
type signed struct {
	mu   sync.Mutex // protects all below
	made time.Time
	cert *tls.Certificate
}

// current returns the certificate, another one once it is old.
func (s *signed) current(now time.Time) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cert != nil && now.Sub(s.made) < certificateAge {
		return s.cert, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "gearshift"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(certificateEnd), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign a certificate: %w", err)
	}
	s.cert, s.made = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, now
	return s.cert, nil
}

// About says what a client has to know before it streams.
type About struct {
	Task   string  `json:"task"`
	FPS    float64 `json:"fps"`
	Width  int     `json:"width"`
	Height int     `json:"height"`
	// WebTransport is nil if there is none.
	WebTransport *WebTransport `json:"webtransport,omitempty"`
}

// WebTransport says where WebTransports are opened: the UDP port, and the SHA-256 of a certificate to be known by that;
// empty if it is one like others.
type WebTransport struct {
	Port        int    `json:"port"`
	Certificate string `json:"certificate_sha256,omitempty"`
}

// about answers with [About].
func (m *Module) about(w http.ResponseWriter, r *http.Request) {
	a := About{Task: m.Ledger.Table().Tasks[m.Task].Name, FPS: m.FPS, Width: m.Input.Width, Height: m.Input.Height}
	if l := m.listener.Load(); l != nil {
		hash, err := l.hash()
		if err != nil {
			serving.Fail(w, r, http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Code: "internal_error", Message: err.Error()})
			return
		}
		a.WebTransport = &WebTransport{Port: l.port, Certificate: hash}
	}
	_ = serving.Answer(w, http.StatusOK, &a)
}
