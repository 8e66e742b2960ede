package streams

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"
)

// carrier carries the messages of a client, over whatever transport. Write may be called at the same time as next.
type carrier interface {
	next(ctx context.Context) ([]byte, error)                                    // JSON
	write(ctx context.Context, kind websocket.MessageType, message []byte) error // text is JSON, binary a frame
	close()
}

// dial connects to the router.
func (c *Client) dial(ctx context.Context) (carrier, error) {
	h := http.Header{}
	if c.Key != "" {
		h.Set("Authorization", "Bearer "+c.Key)
	}
	if c.WebTransport {
		return c.dialWebTransport(ctx, h)
	}
	conn, _, err := websocket.Dial(ctx, c.URL+Path, &websocket.DialOptions{HTTPHeader: h, HTTPClient: c.HTTP})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(mostDown)
	return webSocketCarrier{conn}, nil
}

// mostDown bounds a message of the router.
const mostDown = 16 << 20

type webSocketCarrier struct{ conn *websocket.Conn }

func (l webSocketCarrier) next(ctx context.Context) ([]byte, error) {
	_, text, err := l.conn.Read(ctx)
	return text, err
}

func (l webSocketCarrier) write(ctx context.Context, kind websocket.MessageType, message []byte) error {
	return l.conn.Write(ctx, kind, message)
}

func (l webSocketCarrier) close() {
	_ = l.conn.Close(websocket.StatusNormalClosure, "")
	_ = l.conn.CloseNow()
}

// webTransportCarrier has JSON on one stream or in datagrams, and a stream for each frame.
type webTransportCarrier struct {
	conn    *quic.Conn
	session *webtransport.Session
	control *webtransport.Stream
	got     chan []byte
	reading context.Context // until the session ends
	ends    func()
	over    sync.WaitGroup

	older *webtransport.SendStream // of the frame before
}

// dialWebTransport asks the router where WebTransports are opened, and opens one.
func (c *Client) dialWebTransport(ctx context.Context, h http.Header) (carrier, error) {
	about, host, err := c.about(ctx, h)
	if err != nil {
		return nil, err
	}
	if about.WebTransport == nil {
		return nil, errors.New("the router has no WebTransport (serving.streams.http3)")
	}
	l := &webTransportCarrier{got: make(chan []byte)}
	dial := c.Dial
	if dial == nil {
		dial = quic.DialAddr
	}
	dialer := webtransport.Dialer{
		TLSClientConfig: about.WebTransport.trust(),
		DialAddr: func(ctx context.Context, addr string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			l.conn, err = dial(ctx, addr, t, q)
			return l.conn, err
		},
		QUICConfig: &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true, MaxIdleTimeout: deadTime, KeepAlivePeriod: deadTime / 3},
	}
	at := net.JoinHostPort(host, strconv.Itoa(about.WebTransport.Port))
	_, l.session, err = dialer.Dial(ctx, "https://"+at+Path, h)
	if err != nil {
		return nil, fmt.Errorf("WebTransport at UDP %s: %w", at, err)
	}
	if l.control, err = l.session.OpenStream(); err != nil {
		return nil, errors.Join(err, l.session.CloseWithError(0, ""))
	}
	l.reading, l.ends = context.WithCancel(l.session.Context())
	l.over.Go(l.lines)
	l.over.Go(l.datagrams)
	return l, nil
}

// about asks the router what it says of its streams.
func (c *Client) about(ctx context.Context, h http.Header) (a About, host string, err error) {
	at := c.URL
	if rest, ok := strings.CutPrefix(at, "ws"); ok {
		at = "http" + rest
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+AboutPath, nil)
	if err != nil {
		return a, "", err
	}
	r.Header = h.Clone()
	response, err := cmp.Or(c.HTTP, http.DefaultClient).Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return a, "", err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return a, "", fmt.Errorf("GET %s: %s", AboutPath, response.Status)
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, response.Body, mostText)).Decode(&a); err != nil {
		return a, "", fmt.Errorf("GET %s: %w", AboutPath, err)
	}
	return a, r.URL.Hostname(), nil
}

// trust returns what a client takes for the router: a certificate with the hash, or one that its system knows.
func (t *WebTransport) trust() *tls.Config {
	if t.Certificate == "" {
		return &tls.Config{MinVersion: tls.VersionTLS13}
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // of the name; the hash is looked at below
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			want, err := hex.DecodeString(t.Certificate)
			got := sha256.Sum256(raw[0])
			if err != nil || subtle.ConstantTimeCompare(want, got[:]) != 1 {
				return fmt.Errorf("the certificate has the SHA-256 %x; want %s", got, t.Certificate)
			}
			return nil
		},
	}
}

// lines takes the messages of the stream. Its end is that of the session.
func (l *webTransportCarrier) lines() {
	defer l.ends()
	lines := bufio.NewScanner(l.control)
	lines.Buffer(nil, mostDown)
	for lines.Scan() {
		select {
		case l.got <- bytes.Clone(lines.Bytes()):
		case <-l.reading.Done():
			return
		}
	}
}

func (l *webTransportCarrier) datagrams() {
	for {
		text, err := l.session.ReceiveDatagram(l.reading)
		if err != nil {
			return
		}
		select {
		case l.got <- text:
		case <-l.reading.Done():
			return
		}
	}
}

func (l *webTransportCarrier) next(ctx context.Context) ([]byte, error) {
	select {
	case text := <-l.got:
		return text, nil
	case <-l.reading.Done():
		return nil, errors.New("the router has ended the session")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *webTransportCarrier) write(ctx context.Context, kind websocket.MessageType, message []byte) error {
	if kind == websocket.MessageBinary {
		return l.send(ctx, message)
	}
	_ = l.control.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := l.control.Write(append(message, '\n'))
	return err
}

// send sends a frame, and no more of the one before, if that is still on its way. The router has that one's stream reset when
// the newer frame comes. If it is reset here, connections on which packets are lost end by errors of the protocol now and
// then (quic-go 0.59, RESET_STREAM_AT).
func (l *webTransportCarrier) send(ctx context.Context, frame []byte) error {
	if l.older != nil {
		_ = l.older.SetWriteDeadline(time.Now())
	}
	s, err := l.session.OpenUniStreamSync(ctx)
	if err != nil {
		return err
	}
	l.older = s
	go func() {
		if _, err := s.Write(frame); err == nil {
			_ = s.Close()
			return
		}
		<-s.Context().Done()
		s.CancelWrite(0) // which frees it
	}()
	return nil
}

func (l *webTransportCarrier) close() {
	_ = l.session.CloseWithError(0, "")
	_ = l.control.SetDeadline(time.Now())
	l.ends()
	l.over.Wait()
	_ = l.conn.CloseWithError(0, "") // now, since the process may end
}
