package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"gearshift/serving/config"
	"gearshift/serving/setting"
)

// loadCertificate reads the certificate; nil if there is none.
func loadCertificate(t config.TLS, read func(string) ([]byte, error)) (*tls.Certificate, error) {
	if !t.On() {
		return nil, nil
	}
	cert, err := read(t.Cert)
	var pair tls.Certificate
	if err == nil {
		var key []byte
		if key, err = read(t.Key); err == nil {
			pair, err = tls.X509KeyPair(setting.Text(cert), setting.Text(key))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use certificate %s with key %s: %w", t.Cert, t.Key, err)
	}
	return &pair, nil
}

var errNoCertificate = errors.New("no certificate")

// serveOn answers on the listener, encrypted if there is a certificate: the one
// in force when a connection begins.
func (s *Server) serveOn(server *http.Server, l net.Listener, encrypted bool, certificate func(*live) *tls.Certificate) error {
	if !encrypted {
		return server.Serve(l)
	}
	server.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := certificate(s.live.Load()); c != nil {
				return c, nil
			}
			return nil, errNoCertificate
		},
	}
	return server.ServeTLS(l, "", "")
}

func clientCertificate(l *live) *tls.Certificate { return l.cert }

func adminCertificate(l *live) *tls.Certificate { return l.adminCert }
