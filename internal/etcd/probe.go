package etcd

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"
)

// probe connects to an endpoint like a client, and returns the fault that it finds, or "". The etcd client retries
// until its time is over, and then no longer has the cause.
func (a Address) probe(endpoint string) (wrong string) {
	conn, err := net.DialTimeout("tcp", endpoint, patience/2)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return "no connection: " + err.Error()
		}
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience / 2))
	if a.TLS {
		config, err := tlsConfig()
		if err != nil {
			return err.Error()
		}
		config.ServerName, _, _ = net.SplitHostPort(endpoint)
		config.NextProtos = []string{http2.NextProtoTLS}
		conn = tls.Client(conn, config)
	}
	if _, err = conn.Write([]byte(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err == nil { // with settings
		first := make([]byte, 1)
		if _, err = conn.Read(first); err == nil && !a.TLS && first[0] != 0 {
			err = errors.New("it does not answer as etcd does")
		}
	}
	var timeout net.Error
	switch {
	case err == nil, errors.As(err, &timeout) && timeout.Timeout():
		return ""
	case !a.TLS:
		return "no connection: " + err.Error() + "; does it want TLS, etcds://?"
	case strings.Contains(err.Error(), "remote error: tls: certificate") || strings.Contains(err.Error(), "remote error: tls: bad certificate"):
		return "no connection: " + err.Error() + "; see " + certVariable
	}
	return "no connection: " + err.Error() + "; see " + caVariable
}
