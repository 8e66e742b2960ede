package backend

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/config/files"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate of the name, signed by the authority or, without one, by
// itself, which makes it an authority.
func (a *authority) issue(t *testing.T, name string) (*authority, []byte, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	} else {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	secret, _ := x509.MarshalECPrivateKey(key)
	return &authority{cert, key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func put(t *testing.T, file string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An engine that only its own authority vouches for, and that asks for a certificate,
// gets requests and probes; a renewed file counts from the next connection on.
func TestUpstreamsWithTheirOwnAuthority(t *testing.T) {
	folder := t.TempDir()
	theirs, caPEM, _ := (*authority)(nil).issue(t, "their authority")
	ours, oursPEM, _ := (*authority)(nil).issue(t, "our authority")
	_, serverCert, serverKey := theirs.issue(t, "engine.internal")
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(oursPEM)
	var who string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who = r.TLS.PeerCertificates[0].Subject.CommonName
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "{}")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.StartTLS()
	defer server.Close()

	ca := put(t, filepath.Join(folder, "ca"), append([]byte("\ufeff"), caPEM...))
	_, cert, key := ours.issue(t, "router one")
	certFile, keyFile := put(t, filepath.Join(folder, "cert"), cert), put(t, filepath.Join(folder, "key"), key)
	whole := TLSConfig{CA: ca, Cert: certFile, Key: keyFile, ServerName: "engine.internal"}
	ask := func(c TLSConfig) (*Upstream, error) {
		u, err := NewUpstream(UpstreamConfig{URL: server.URL, TLS: c})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(u.Close)
		r, err := post(t.Context(), u, ChatPath, "{}")
		if err == nil {
			r.Body.Close()
		}
		return u, err
	}
	u, err := ask(whole)
	if err != nil || who != "router one" {
		t.Fatalf("%q asked, %v", who, err)
	}
	if r, err := u.Get(t.Context(), "/health"); err != nil {
		t.Errorf("a probe: %v", err)
	} else {
		r.Body.Close()
	}
	for name, c := range map[string]TLSConfig{
		"the system's authorities": {Cert: certFile, Key: keyFile, ServerName: "engine.internal"},
		"no certificate":           {CA: ca, ServerName: "engine.internal"},
		"another name":             {CA: ca, Cert: certFile, Key: keyFile},
	} {
		if _, err := ask(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}

	_, cert, key = ours.issue(t, "router two")
	put(t, certFile, cert)
	if r, err := post(t.Context(), u, ChatPath, "{}"); err != nil || who != "router one" { // half of the pair
		t.Errorf("%q asked, %v", who, err)
	} else {
		r.Body.Close()
	}
	put(t, keyFile, key)
	if r, err := post(t.Context(), u, ChatPath, "{}"); err != nil || who != "router two" {
		t.Errorf("%q asked, %v", who, err)
	} else {
		r.Body.Close()
	}
}

func TestUpstreamTLSFaults(t *testing.T) {
	folder := t.TempDir()
	text := put(t, filepath.Join(folder, "text"), []byte("no certificate"))
	for _, c := range []struct {
		url  string
		tls  TLSConfig
		want string
	}{
		{"http://x", TLSConfig{CA: text}, "tls has no meaning without https://"},
		{"https://x", TLSConfig{Cert: text}, "tls: cert and key go together"},
		{"https://x", TLSConfig{CA: text}, "text holds no certificate in PEM"},
		{"https://x", TLSConfig{CA: filepath.Join(folder, "none")}, "no such file"},
		{"https://x", TLSConfig{Cert: text, Key: text}, "cannot use certificate " + text + " with key " + text},
	} {
		if _, err := NewUpstream(UpstreamConfig{URL: c.url, TLS: c.tls}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "no certificate\n") {
			t.Errorf("%+v: error %v, want %s", c.tls, err, c.want)
		}
	}
}

// Where the files lie on a file system that hangs, connections are made with what was read last.
func TestTrustOfFilesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ca, _ := (*authority)(nil).issue(t, "an authority")
		trusted, err := newTrust(TLSConfig{CA: put(t, filepath.Join(t.TempDir(), "ca"), ca)})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan struct{})
		defer close(answers)
		trusted.guard.Open = func(string) (files.File, error) {
			<-answers
			return nil, os.ErrNotExist
		}
		for range 2 {
			start := time.Now()
			if c := trusted.config("engine"); c.RootCAs == nil || c.ServerName != "engine" {
				t.Errorf("%+v", c)
			}
			if took := time.Since(start); took > trustPatience {
				t.Errorf("a connection waits %v", took)
			}
		}
	})
}
