package backend

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"gearshift/serving/config/files"
	"gearshift/serving/config/setting"
)

// TLSConfig is how a server and the router know each other. Without any of it the
// system's authorities sign the server's certificate, and the router shows no certificate.
type TLSConfig struct {
	// CA is a PEM file of the authorities that sign the server's certificate. Empty means
	// the system's.
	CA string `yaml:"ca,omitempty"`
	// Cert and Key are files of PEM: what the router shows of itself (mTLS).
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
	// ServerName is the name that the server's certificate must have. Empty is the host's.
	ServerName string `yaml:"server_name,omitempty"`
}

// On reports whether any of it is set.
func (t TLSConfig) On() bool { return t != TLSConfig{} }

// Validate names what is missing. It reads no file.
func (t TLSConfig) Validate() error {
	if (t.Cert == "") != (t.Key == "") {
		return errors.New("cert and key go together: each is a file")
	}
	return nil
}

// trust makes what connections to a server are secured by. The files are read again for
// each new connection, so that one that has been renewed counts from then on; one that
// cannot be used does not replace the last good one.
type trust struct {
	files TLSConfig
	guard files.Guard

	mu      sync.Mutex // protects all below
	content [3][]byte  // of CA, Cert and Key, as they were used last
	good    *tls.Config
}

// trustPatience is how long a connection waits for the files, which may lie on a file
// system that hangs.
const trustPatience = time.Second

func newTrust(c TLSConfig) (*trust, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	t := &trust{files: c, guard: files.Guard{Patience: trustPatience}}
	return t, t.read()
}

// config is for a connection to the host.
func (t *trust) config(host string) *tls.Config {
	_ = t.read() // the last good one stays
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.good.Clone()
	if c.ServerName == "" {
		c.ServerName = host
	}
	return c
}

// read takes over the files, if they hold anything else than before and can be used.
func (t *trust) read() error {
	var content [3][]byte
	for i, file := range []string{t.files.CA, t.files.Cert, t.files.Key} {
		if file == "" {
			continue
		}
		data, err := t.guard.Read(file)
		if err != nil {
			return err
		}
		content[i] = setting.Text(data)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.good != nil && bytes.Equal(content[0], t.content[0]) && bytes.Equal(content[1], t.content[1]) && bytes.Equal(content[2], t.content[2]) {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.files.ServerName}
	if t.files.CA != "" {
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(content[0]) {
			return fmt.Errorf("%s holds no certificate in PEM", t.files.CA)
		}
	}
	if t.files.Cert != "" {
		pair, err := tls.X509KeyPair(content[1], content[2])
		if err != nil {
			return fmt.Errorf("cannot use certificate %s with key %s: %w", t.files.Cert, t.files.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	t.content, t.good = content, c
	return nil
}
