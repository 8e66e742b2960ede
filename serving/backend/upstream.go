package backend

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"gearshift/serving/config/setting"
	"gearshift/serving/engines/address"
)

// UpstreamConfig is one OpenAI-compatible server.
type UpstreamConfig struct {
	// URL is the server's base, as [address.Parse] reads it. A query in it goes with all
	// that is asked for there.
	URL string `yaml:"url"`
	// Key names the environment variable with the server's API key. Empty
	// sends none.
	Key string `yaml:"api_key_env"`
	// ForwardAuthorization lets the client's own credentials through. Without
	// it they end at the router.
	ForwardAuthorization bool `yaml:"forward_authorization"`
	// TLS is how the server and the router know each other.
	TLS TLSConfig `yaml:"tls,omitempty"`
	// ConnectTimeout bounds the time to connect, TLS included. Zero is 5 s. All
	// that comes after is for the request's context to bound.
	ConnectTimeout time.Duration `yaml:"-"`
}

// Upstream sends requests to an OpenAI-compatible server. An error before a
// connection was made is a [net.OpError] whose Op is "dial".
type Upstream struct {
	way
	transport *renewable
	at        *addresses
	via       transport // what leads to it
}

type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// NewUpstream checks the configuration and reads the key from the environment.
// It does not connect.
func NewUpstream(c UpstreamConfig) (*Upstream, error) {
	server, err := address.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("cannot use upstream: %w", err)
	}
	if _, err := address.Proxy(&http.Request{URL: &server.Root}); err != nil {
		return nil, fmt.Errorf("cannot use upstream %q: HTTP_PROXY or HTTPS_PROXY is not the URL of a proxy; want one such as http://proxy:3128", c.URL)
	}
	if c.TLS.On() && server.Root.Scheme != "https" {
		return nil, fmt.Errorf("cannot use upstream %q: tls has no meaning without https://", c.URL)
	}
	trusted, err := newTrust(c.TLS)
	if err != nil {
		return nil, fmt.Errorf("cannot use upstream %q: tls: %w", c.URL, err)
	}
	u := &Upstream{way: way{server: server, forward: c.ForwardAuthorization}}
	if c.Key != "" {
		key, err := setting.Key(c.Key, "its key")
		if err != nil {
			return nil, fmt.Errorf("cannot use upstream %q: %w", c.URL, err)
		}
		u.bearer = "Bearer " + key
	}
	connect := c.ConnectTimeout
	if connect <= 0 {
		connect = 5 * time.Second
	}
	dialer := &connector{net.Dialer{Timeout: connect}, trusted}
	dial := address.Dialer(dialer.DialContext)
	u.transport = &renewable{}
	u.transport.Store(&http.Transport{
		Proxy:               address.Proxy,
		DialContext:         dial,
		DialTLSContext:      dialer.dialTLS,
		TLSHandshakeTimeout: connect, // behind a proxy, as is what follows
		TLSClientConfig:     trusted.config(server.Root.Hostname()),
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // it would ask for it
	})
	host := server.Root.Hostname()
	if proxy, _ := address.Proxy(&http.Request{URL: &server.Root}); proxy != nil || address.Socket(host) != "" {
		host = "" // which the proxy looks up, or which is no name
	}
	u.at = newAddresses(host)
	u.at.moved = u.transport.renew
	standard := carrier{&u.way, u.transport, u.at}
	u.via = standard
	if direct(&server.Root) {
		u.via = newPlain(dial, standard)
	}
	return u, nil
}

// connector makes connections within one time for all that takes.
type connector struct {
	net.Dialer
	trust *trust
}

// dialTLS connects and shakes hands. Where that fails nothing has been sent, and
// the error says so as that of a plain connection does.
func (c *connector) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := c.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	secure := tls.Client(conn, c.trust.config(host))
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: err}
	}
	return secure, nil
}

// Close closes idle connections, and the others after their requests.
func (u *Upstream) Close() {
	u.at.stop()
	if p, ok := u.via.(*plain); ok {
		p.end()
		return
	}
	u.via.CloseIdleConnections()
}

// ForwardsAuthorization says that the client's own credentials go to the server.
func (u *Upstream) ForwardsAuthorization() bool { return u.forward }

// RoundTrip implements [http.RoundTripper]. Only the path of the request's URL
// counts: it goes to the upstream server, whatever host it names. Its header holds
// nothing of one connection only, as that of the answer may. An answer that the server
// compressed, though it was asked not to, comes as it was before.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := u.via.RoundTrip(r)
	if err == nil {
		decompress(response)
	}
	return response, err
}
