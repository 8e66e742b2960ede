package etcdtest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards connections to a server, unless a fault is set.
type Proxy struct {
	Endpoint string // host:port
	target   string

	mu      sync.Mutex // protects what follows
	changed *sync.Cond
	cut     bool          // connections are closed on arrival
	held    bool          // nothing is forwarded
	delay   time.Duration // of forwarded data
	conns   map[net.Conn]bool
}

// NewProxy starts a proxy in front of a target, until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Endpoint: l.Addr().String(), target: target, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		done.Wait()
	})
	return p
}

// serve forwards the data of one connection.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.enter(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pass(server, client) })
	both.Go(func() { p.pass(client, server) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

func (p *Proxy) enter(both ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range both {
		if p.cut {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.cut
}

func (p *Proxy) pass(to io.WriteCloser, from io.ReadCloser) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !p.wait() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when data may be forwarded; false if connections are cut.
func (p *Proxy) wait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held && !p.cut {
		p.changed.Wait()
	}
	if d := p.delay; d > 0 && !p.cut {
		p.mu.Unlock()
		<-time.After(d)
		p.mu.Lock()
	}
	return !p.cut
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

// Cut closes all present and new connections, like a killed server.
func (p *Proxy) Cut() {
	p.set(func() {
		p.cut = true
		for c := range p.conns {
			_ = c.Close()
		}
	})
}

// Hold forwards nothing and closes nothing, like a network partition.
func (p *Proxy) Hold() { p.set(func() { p.held = true }) }

// Slow delays all data, each way.
func (p *Proxy) Slow(by time.Duration) { p.set(func() { p.delay = by }) }

// Pass ends all faults.
func (p *Proxy) Pass() { p.set(func() { p.cut, p.held, p.delay = false, false, 0 }) }
