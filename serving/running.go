package serving

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"

	"gearshift/serving/browser"
	"gearshift/serving/certificate"
	"gearshift/serving/config"
	"gearshift/serving/files"
	"gearshift/serving/keys"
	"gearshift/serving/remote"
)

// running is what may change while the server runs. It is replaced as a whole; a
// request uses what it finds when it looks.
type running struct {
	config Config
	task   int // of requests that name none
	// ring is the clients' keys, and list what it is made of; nil lets anyone in.
	ring *keys.Ring
	list []keys.Key
	// streams are the files that were pipes at the start.
	streams []string
	// cert and adminCert are nil without encryption.
	cert, adminCert *tls.Certificate
	// proxies are trusted to name their clients.
	proxies remote.Proxies
	// browser is what web pages may do, and the names of this server.
	browser *browser.Rules
}

// begins reads what the configuration names for the first time.
func (s *Server) begins() error {
	first, err := s.prepare(s.config, nil)
	if err == nil {
		err = first.ring.RestoreUsage(s.config.UsageFile)
	}
	if err != nil {
		return err
	}
	s.running.Store(first)
	if s.reloads, err = newReloads(s.metrics.Registry); err != nil {
		return err
	}
	s.gate = s.newGate()
	s.watchers = append(slices.Clip(s.watchers), trialWatcher{s.trials})
	r := s.metrics.Registry
	return errors.Join(r.Register(s.gate), r.Register(drainCollector{s}), r.Register(s.trials))
}

// tellKeys says who may ask.
func (s *Server) tellKeys() {
	ring := s.running.Load().ring
	switch {
	case ring == nil:
		s.log.Warn("no keys file: anyone who can connect may ask", "to_make_one", "gearshift key new NAME --keys FILE, and serving.keys_file: FILE")
	case len(ring.Holders()) == 0:
		s.log.Warn("the keys file has no keys: nobody may ask", "file", s.running.Load().config.KeysFile)
	default:
		s.log.Info("API keys are asked for", "keys", len(ring.Holders()))
	}
}

// settings is the configuration in force.
func (s *Server) settings() *Config { return &s.running.Load().config }

// prepare makes what the configuration asks for: it reads the files that it names.
// Clients known from before keep what they have spent of their limits.
func (s *Server) prepare(c Config, before *running) (*running, error) {
	next := &running{config: c, browser: browserRules(&c)}
	var faults [5]error
	next.task, faults[0] = s.defaultTask(c.DefaultTask)
	read := s.readFile(&next.streams, before)
	switch {
	case c.KeysFile != "" && before.streamed(c.KeysFile):
		next.list = before.list
	case c.KeysFile != "":
		next.list, faults[1] = readKeys(c.KeysFile, read)
	}
	if faults[1] == nil && c.KeysFile != "" {
		faults[1] = s.catalogue.CheckGrants(&c, next.list)
	}
	if next.cert = before.certificate(c.TLS); next.cert == nil {
		next.cert, faults[2] = certificate.Load(c.TLS, read)
	}
	if next.adminCert = before.certificate(c.Admin.TLS); next.adminCert == nil {
		next.adminCert, faults[3] = certificate.Load(c.Admin.TLS, read)
	}
	next.proxies, faults[4] = remote.Parse(c.TrustedProxies)
	if err := errors.Join(faults[:]...); err != nil {
		return nil, err
	}
	if c.KeysFile != "" { // last: holders that are known have their new limits from here on
		next.ring = keys.NewRing(next.list, before.keyRing())
	}
	return next, nil
}

// readFile is how the files are read: at the start, when a pipe may stand for one, as long
// as it takes, and later only if they answer in time. Streams notes the pipes.
func (s *Server) readFile(streams *[]string, before *running) func(name string) ([]byte, error) {
	if before != nil {
		*streams = before.streams
		return s.files.Read
	}
	return func(name string) ([]byte, error) {
		if files.IsPipe(name) {
			*streams = append(*streams, name)
		}
		return os.ReadFile(name)
	}
}

// streamed reports whether the file was a pipe, which cannot be read again.
func (l *running) streamed(name string) bool { return l != nil && slices.Contains(l.streams, name) }

// certificate is the one in force if it came from a pipe; nil if it can be read again.
func (l *running) certificate(t config.TLS) *tls.Certificate {
	switch {
	case l == nil || !l.streamed(t.Cert) && !l.streamed(t.Key):
		return nil
	case t == l.config.TLS:
		return l.cert
	case t == l.config.Admin.TLS:
		return l.adminCert
	}
	return nil
}

func (s *Server) defaultTask(name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	if i := s.table.TaskIndex(name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("default_task: no task %q", name)
}

func (l *running) keyRing() *keys.Ring {
	if l == nil {
		return nil
	}
	return l.ring
}

func readKeys(file string, read func(string) ([]byte, error)) ([]keys.Key, error) {
	data, err := read(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no keys file %s; make one by: gearshift key new NAME --keys %s", file, file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read keys: %w", err)
	}
	return keys.Parse(file, data)
}

// differs names the keys whose files say something else than before.
func (l *running) differs(next *running) []string {
	var changed []string
	if !keys.Same(l.list, next.list) {
		changed = append(changed, "serving.keys_file")
	}
	if !sameCertificate(l.cert, next.cert) {
		changed = append(changed, "serving.tls")
	}
	if !sameCertificate(l.adminCert, next.adminCert) {
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

// files are those that the server reads itself.
func (l *running) files() []string {
	var list []string
	for _, f := range []string{l.config.KeysFile, l.config.TLS.Cert, l.config.TLS.Key, l.config.Admin.TLS.Cert, l.config.Admin.TLS.Key} {
		if f != "" {
			list = append(list, f)
		}
	}
	return list
}

// certificate has the clients' certificate in force; nil without encryption.
func (s *Server) certificate() func() *tls.Certificate {
	if !s.config.TLS.On() {
		return nil
	}
	return func() *tls.Certificate { return s.running.Load().cert }
}
