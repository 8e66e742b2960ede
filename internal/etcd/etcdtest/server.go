// Package etcdtest runs etcd within tests: a server of one member, and a proxy in front of it that breaks, holds and
// slows connections.
package etcdtest

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Server is a cluster of one member.
type Server struct {
	Endpoint  string // host:port
	dir       string
	configure func(*embed.Config) // may be nil
	scheme    string              // empty: http
	etcd      *embed.Etcd
}

// New starts a server with its own folder of files.
func New() (*Server, error) {
	dir, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		return nil, err
	}
	s := &Server{Endpoint: "127.0.0.1:0", dir: dir}
	return s, s.start()
}

// Start starts a server for a test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := New()
	if s != nil {
		t.Cleanup(s.Close)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Server) start() error {
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync = s.dir, true
	c.TickMs, c.ElectionMs = 50, 500 // leases of 1 s
	clients := url.URL{Scheme: cmp.Or(s.scheme, "http"), Host: s.Endpoint}
	peers := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.Name + "=" + peers.String()
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	if s.configure != nil {
		s.configure(c)
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return err
	case <-time.After(time.Minute):
		e.Close()
		return errors.New("etcd is not ready after a minute")
	}
	s.Endpoint, s.etcd = e.Clients[0].Addr().String(), e
	return nil
}

// Stop ends the server, and keeps its data.
func (s *Server) Stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// Restart starts a stopped server at the same endpoint.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// Close ends the server, and removes its data.
func (s *Server) Close() {
	s.Stop()
	_ = os.RemoveAll(s.dir)
}

// Client returns a client of the server, until the test ends.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return client(t, s.Endpoint)
}

func client(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Compact removes the server's history before now.
func (s *Server) Compact(t testing.TB) {
	t.Helper()
	Compact(t, s.Endpoint)
}

// Compact removes the history before now of the server at an endpoint.
func Compact(t testing.TB, endpoint string) {
	t.Helper()
	c := client(t, endpoint)
	got, err := c.Get(t.Context(), "x")
	if err == nil {
		_, err = c.Compact(t.Context(), got.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Closed returns an endpoint at which nothing listens.
func Closed(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Eventually waits until a condition holds, and fails the test if it does not within 30 s.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after 30 s, not yet: %s", what)
		}
	}
}
