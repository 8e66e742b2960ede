package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"gearshift/serving/config/setting"
)

// This file reads the certificates of listeners, and serves on them encrypted.

// LoadCertificate reads the certificate; nil if there is none.
func LoadCertificate(t TLS, read func(string) ([]byte, error)) (*tls.Certificate, error) {
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

// ServeTLS answers on the listener, encrypted by the certificate that is in force when a
// connection begins. A nil current is no encryption.
func ServeTLS(server *http.Server, l net.Listener, current func() *tls.Certificate) error {
	if current == nil {
		return server.Serve(l)
	}
	server.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := current(); c != nil {
				return c, nil
			}
			return nil, errNoCertificate
		},
	}
	return server.ServeTLS(l, "", "")
}
