// Package apiserver runs a Kubernetes API server with its etcd for tests, where `make apiserver` has built both.
package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

// ErrNone reports that the programs have not been built.
var ErrNone = errors.New("there is no API server; make apiserver builds it")

// Server is a running API server.
type Server struct {
	// Admin has all rights.
	Admin *rest.Config
	// Router is the user router, with the rights that roles grant.
	Router *rest.Config

	commands []*exec.Cmd
	logs     []*bytes.Buffer
}

// Start runs the programs of the folder until Stop, and keeps their files in dir.
func Start(ctx context.Context, folder, dir string) (*Server, error) {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return nil, ErrNone
		}
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	key, tokens := filepath.Join(dir, "key.pem"), filepath.Join(dir, "tokens.csv")
	if err := writeKey(key); err != nil {
		return nil, err
	}
	if err := os.WriteFile(tokens, []byte("admin-token,admin,1,system:masters\nrouter-token,router,2\n"), 0o600); err != nil {
		return nil, err
	}
	s := new(Server)
	store := fmt.Sprint("http://127.0.0.1:", ports[0])
	err = errors.Join(
		s.run(filepath.Join(folder, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
			"--listen-client-urls", store, "--advertise-client-urls", store,
			"--listen-peer-urls", fmt.Sprint("http://127.0.0.1:", ports[1]), "--log-level", "error"),
		s.run(filepath.Join(folder, "kube-apiserver"), "--etcd-servers", store, "--bind-address", "127.0.0.1",
			"--secure-port", fmt.Sprint(ports[2]), "--cert-dir", dir, "--service-cluster-ip-range", "10.96.0.0/24",
			"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-signing-key-file", key, "--service-account-key-file", key,
			"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount"),
	)
	if err == nil {
		err = s.wait(ctx, fmt.Sprint("https://127.0.0.1:", ports[2]), filepath.Join(dir, "apiserver.crt"))
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// run starts a program.
func (s *Server) run(program string, args ...string) error {
	c, log := exec.Command(program, args...), new(bytes.Buffer)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	s.commands, s.logs = append(s.commands, c), append(s.logs, log)
	return nil
}

// wait returns once the server is ready.
func (s *Server) wait(ctx context.Context, url, certificate string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ready(ctx, url, certificate)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			s.Stop()
			return fmt.Errorf("the API server is not ready: %w; it logged:\n%s", err, s.logs[len(s.logs)-1])
		case <-tick.C:
		}
	}
}

func (s *Server) ready(ctx context.Context, url, certificate string) error {
	ca, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	as := func(token string) *rest.Config {
		return &rest.Config{Host: url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: ca}, QPS: -1}
	}
	s.Admin, s.Router = as("admin-token"), as("router-token")
	client, err := rest.HTTPClientFor(s.Admin)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(url + "/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return ctx.Err()
}

// Stop ends the programs.
func (s *Server) Stop() {
	for _, c := range s.commands {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	s.commands = nil
}

// freePorts returns ports on which nothing listens.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return os.WriteFile(path, text, 0o600)
}
