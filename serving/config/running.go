package config

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/config/files"
)

// Settings are in force together. They are replaced as a whole; a request uses what it finds
// when it looks.
type Settings struct {
	Config Config
	// Task is the index of the task of requests that name none.
	Task int
	// Ring is the clients' keys; nil lets anyone in.
	Ring *access.Ring
	list []access.Key // that Ring is made of
	// streams are the files that were pipes at the start.
	streams []string
	// Cert and AdminCert are nil without encryption.
	Cert, AdminCert *tls.Certificate
	// Proxies are trusted to name their clients.
	Proxies access.Proxies
	// Browser is what web pages may do, and the names of this server.
	Browser *access.PageRules
}

// Running has the settings in force. It may be used from any goroutine.
type Running struct{ atomic.Pointer[Settings] }

// Config returns the configuration in force.
func (r *Running) Config() *Config { return &r.Load().Config }

// Loader makes Settings. Its methods are called one at a time.
type Loader struct {
	Table *fleet.Table
	// CheckGrants names what keys grant that there is not.
	CheckGrants func(c *Config, list []access.Key) error
	// Rules are what web pages may do by the configuration.
	Rules func(c *Config) *access.PageRules

	files files.Guard // of those that are read again
}

// Load makes what the configuration asks for: it reads the files that it names.
// Clients known from before keep what they have spent of their limits. Before is nil at the
// start.
func (l *Loader) Load(c Config, before *Settings) (*Settings, error) {
	next := &Settings{Config: c, Browser: l.Rules(&c)}
	var faults [6]error
	next.Task, faults[0] = l.defaultTask(c.DefaultTask)
	read := l.readFile(&next.streams, before)
	switch {
	case c.KeysFile != "" && before.streamed(c.KeysFile):
		next.list = before.list
	case c.KeysFile != "":
		next.list, faults[1] = readKeys(c.KeysFile, read)
	}
	if faults[1] == nil && c.KeysFile != "" {
		faults[1] = l.CheckGrants(&c, next.list)
	}
	if next.Cert = before.certificate(c.TLS); next.Cert == nil {
		next.Cert, faults[2] = LoadCertificate(c.TLS, read)
	}
	if next.AdminCert = before.certificate(c.Admin.TLS); next.AdminCert == nil {
		next.AdminCert, faults[3] = LoadCertificate(c.Admin.TLS, read)
	}
	faults[5] = c.FitClasses(FleetOf(l.Table))
	next.Proxies, faults[4] = access.ParseProxies(c.TrustedProxies)
	if err := errors.Join(faults[:]...); err != nil {
		return nil, err
	}
	if c.KeysFile != "" { // last: holders that are known have their new limits from here on
		next.Ring = access.NewRing(next.list, before.keyRing())
	}
	return next, nil
}

// readFile is how the files are read: at the start, when a pipe may stand for one, as long
// as it takes, and later only if they answer in time. Streams notes the pipes.
func (l *Loader) readFile(streams *[]string, before *Settings) func(name string) ([]byte, error) {
	if before != nil {
		*streams = before.streams
		return l.files.Read
	}
	return func(name string) ([]byte, error) {
		if files.IsPipe(name) {
			*streams = append(*streams, name)
		}
		return os.ReadFile(name)
	}
}

// streamed reports whether the file was a pipe, which cannot be read again.
func (s *Settings) streamed(name string) bool {
	return s != nil && slices.Contains(s.streams, name)
}

// certificate is the one in force if it came from a pipe; nil if it can be read again.
func (s *Settings) certificate(t TLS) *tls.Certificate {
	switch {
	case s == nil || !s.streamed(t.Cert) && !s.streamed(t.Key):
		return nil
	case t == s.Config.TLS:
		return s.Cert
	case t == s.Config.Admin.TLS:
		return s.AdminCert
	}
	return nil
}

func (l *Loader) defaultTask(name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	if i := l.Table.TaskIndex(name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("default_task: no task %q", name)
}

func (s *Settings) keyRing() *access.Ring {
	if s == nil {
		return nil
	}
	return s.Ring
}

func readKeys(file string, read func(string) ([]byte, error)) ([]access.Key, error) {
	data, err := read(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no keys file %s; make one by: gearshift key new NAME --keys %s", file, file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read keys: %w", err)
	}
	return access.ParseKeys(file, data)
}

// Differs names the keys whose files say something else in the next settings.
func (s *Settings) Differs(next *Settings) []string {
	var changed []string
	if !access.SameKeys(s.list, next.list) {
		changed = append(changed, "serving.keys_file")
	}
	if !sameCertificate(s.Cert, next.Cert) {
		changed = append(changed, "serving.tls")
	}
	if !sameCertificate(s.AdminCert, next.AdminCert) {
		changed = append(changed, "serving.admin.tls")
	}
	return changed
}

func sameCertificate(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
}

// Files are those that the configuration names.
func (s *Settings) Files() []string {
	var list []string
	for _, f := range []string{s.Config.KeysFile, s.Config.TLS.Cert, s.Config.TLS.Key, s.Config.Admin.TLS.Cert, s.Config.Admin.TLS.Key} {
		if f != "" {
			list = append(list, f)
		}
	}
	return list
}
