package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// Secure restarts the server with TLS, and with users: root, and one that may read and write below a prefix. It accepts
// clients that present the server's own certificate, and returns the files of that and of its key.
func (s *Server) Secure(t testing.TB, user, password, prefix string) (cert, key string) {
	t.Helper()
	c, ctx := s.Client(t), t.Context()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.UserAdd(ctx, "root", "root's")
	do(err)
	_, err = c.UserGrantRole(ctx, "root", "root")
	do(err)
	_, err = c.RoleAdd(ctx, "one")
	do(err)
	_, err = c.RoleGrantPermission(ctx, "one", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
	do(err)
	_, err = c.UserAdd(ctx, user, password)
	do(err)
	_, err = c.UserGrantRole(ctx, user, "one")
	do(err)
	_, err = c.AuthEnable(ctx)
	do(err)
	s.Stop()
	cert, key = Certificate(t)
	s.scheme, s.configure = "https", func(c *embed.Config) {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = cert, key
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = cert, true
	}
	s.Restart(t)
	return cert, key
}

// Certificate makes a self-signed certificate of 127.0.0.1 and its key, and returns their files.
func Certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", encoded)
}
