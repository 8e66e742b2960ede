package picker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// Config sets the address for gateways and its encryption.
type Config struct {
	// Addr is the listening address, host:port; empty: none.
	Addr string `yaml:"addr,omitempty"`
	// TLS sets the encryption of gateways' connections: [TLSOff] (or empty), [TLSServer] or [TLSSelfSigned].
	TLS string `yaml:"tls,omitempty"`
	// Pass lists paths that the router does not know, and passes to replicas; one that ends with / stands for all below it.
	Pass []string `yaml:"pass,omitempty"`
}

// The values of [Config.TLS].
const (
	TLSOff = "off"
	// TLSServer uses the certificate of serving.tls.
	TLSServer = "server"
	// TLSSelfSigned makes a certificate at the start, for gateways that encrypt and verify no name.
	TLSSelfSigned = "self-signed"
)

// On reports whether the picker listens for gateways.
func (c Config) On() bool { return c.Addr != "" }

// Validate returns the configuration's faults.
func (c Config) Validate() error {
	var faults []error
	_, port, err := net.SplitHostPort(c.Addr)
	if _, bad := strconv.ParseUint(port, 10, 16); c.On() && (err != nil || bad != nil) {
		faults = append(faults, fmt.Errorf("addr: %q is not an address; want HOST:PORT or :PORT, such as 127.0.0.1:9002", c.Addr))
	}
	switch c.TLS {
	case "", TLSOff, TLSServer, TLSSelfSigned:
	default:
		faults = append(faults, fmt.Errorf("tls: unknown %q; want %s, %s or %s", c.TLS, TLSOff, TLSServer, TLSSelfSigned))
	}
	for i, p := range c.Pass {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "*?# ") {
			faults = append(faults, fmt.Errorf("pass[%d]: %q is not a path; want one such as /custom, or /custom/ for all below it", i, p))
		}
	}
	return errors.Join(faults...)
}

// passes reports whether the path is one of Pass. One with dots or empty segments is not: a server may take it for another.
func (c Config) passes(asked string) bool {
	if clean := path.Clean(asked); clean != asked && clean+"/" != asked {
		return false
	}
	return slices.ContainsFunc(c.Pass, func(p string) bool { return p == asked || strings.HasSuffix(p, "/") && strings.HasPrefix(asked, p) })
}

// Reachable reports whether a gateway can reach an address: it looks up no names.
func Reachable(at string) bool {
	_, err := netip.ParseAddrPort(at)
	return err == nil
}

// credentials returns the encryption of connections; nil: none. Server returns the certificate of the clients' port.
func (c Config) credentials(server func() *tls.Certificate) (credentials.TransportCredentials, error) {
	switch c.TLS {
	case TLSServer:
		if server() == nil {
			return nil, errors.New("serving.picker.tls: server needs the certificate of serving.tls")
		}
	case TLSSelfSigned:
		own, err := selfSigned(time.Now())
		if err != nil {
			return nil, fmt.Errorf("cannot make a certificate for gateways: %w", err)
		}
		server = func() *tls.Certificate { return own }
	default:
		return nil, nil
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return server(), nil },
	}), nil
}

// selfSigned makes a certificate that no authority has signed.
func selfSigned(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{Organization: []string{"Gearshift"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, BasicConstraintsValid: true,
	}
	text, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}, nil
}
