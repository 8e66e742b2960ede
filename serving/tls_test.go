package serving_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

// certificate writes a new certificate for localhost, signed by itself, and its
// key, over what lies in the folder.
func certificate(t *testing.T, dir string, serial int64) (c config.TLS, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c = config.TLS{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, c.Cert, string(cert))
	write(t, c.Key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return c, roots
}

// tlsClient trusts the roots, and notes the serial number of the certificate.
func tlsClient(l *pipes, roots *x509.CertPool, top uint16) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", MaxVersion: top, MinVersion: tls.VersionTLS10},
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
		// One connection each, so that each request meets the certificate anew.
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
}

func TestTLS(t *testing.T) {
	config, roots := certificate(t, t.TempDir(), 1)
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Config.TLS, o.Config.Admin.TLS = config, config })
	l, stop, ended := serve(t, g)
	response, err := tlsClient(l, roots, 0).Post("https://localhost"+chat, jsonType, strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || response.TLS.Version != tls.VersionTLS13 || response.ProtoMajor != 2 {
		t.Errorf("status %d by TLS %x and HTTP %d", response.StatusCode, response.TLS.Version, response.ProtoMajor)
	}
	if response, err := tlsClient(l, roots, tls.VersionTLS11).Get("https://localhost/healthz"); err == nil {
		response.Body.Close()
		t.Error("TLS 1.1 is taken")
	}
	if response, err := l.client().Get("http://localhost/healthz"); err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: status %d", response.StatusCode)
		}
	}
	operators, adminEnded := newPipes(), make(chan error, 1)
	ctx, stopAdmin := context.WithCancel(t.Context())
	go func() { adminEnded <- g.ServeAdmin(ctx, operators) }()
	if response, err = tlsClient(operators, roots, 0).Get("https://localhost/healthz"); err != nil {
		t.Error(err)
	} else {
		response.Body.Close()
	}
	stop()
	stopAdmin()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-adminEnded; err != nil {
		t.Error(err)
	}
}

// An encrypted connection does not show how many fields its headers have, nor how many
// requests of it are at work.
func TestHeadersOfEncryptedRequestsCount(t *testing.T) {
	config, roots := certificate(t, t.TempDir(), 1)
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		o.Config.TLS, o.Config.Memory.Limit = config, 2<<20 // of which 128 KiB for headers
	})
	l, stop, ended := serve(t, g)
	for fields, want := range map[int]int{20: http.StatusOK, 1400: http.StatusServiceUnavailable} {
		r, err := http.NewRequest(http.MethodPost, "https://localhost"+chat, strings.NewReader(ask))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", jsonType)
		for range fields {
			r.Header.Add("X-A", "")
		}
		response, err := tlsClient(l, roots, 0).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want || response.ProtoMajor != 2 {
			t.Errorf("%d fields: status %d by HTTP %d, want %d", fields, response.StatusCode, response.ProtoMajor, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTLSFaults(t *testing.T) {
	dir := t.TempDir()
	good, _ := certificate(t, dir, 1)
	other, _ := certificate(t, t.TempDir(), 2)
	for want, c := range map[string]config.TLS{
		"tls: cert and key go together":                      {Cert: good.Cert},
		"cannot use certificate " + good.Cert + " with key ": {Cert: good.Cert, Key: other.Key},
		"cannot use certificate nowhere.pem":                 {Cert: "nowhere.pem", Key: good.Key},
	} {
		o := serving.Options{Config: config.Default(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
		o.Config.TLS = c
		if _, err := serving.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Over HTTP/2 a request may take longer than a write: to its first byte, and between
// its pieces.
func TestHTTP2WaitsLongerThanAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, roots := certificate(t, t.TempDir(), 1)
		slow := transport(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			body, pipe := io.Pipe()
			go func() {
				for _, event := range []string{`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`, "[DONE]"} {
					_, _ = io.WriteString(pipe, "data: "+event+"\n\n")
					time.Sleep(45 * time.Second)
				}
				_ = pipe.Close()
			}()
			return reply(http.StatusOK, eventType, body), nil
		})
		g := newRig(t, slow, func(o *serving.Options) { o.Config.TLS = config })
		l, stop, ended := serve(t, g)
		response, err := tlsClient(l, roots, 0).Post("https://localhost"+chat, jsonType, strings.NewReader(strings.Replace(ask, "{", `{"stream":true,`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.ProtoMajor != 2 || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
			t.Errorf("HTTP %d, %v: %s", response.ProtoMajor, err, text)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
