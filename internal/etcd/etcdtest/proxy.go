package etcdtest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes connections on to a server, until it is told otherwise.
type Proxy struct {
	Endpoint string // host:port
	target   string

	mu      sync.Mutex // protects what follows
	changed *sync.Cond
	cut     bool          // connections are closed as they come
	held    bool          // nothing is passed on
	delay   time.Duration // of what is passed on
	conns   map[net.Conn]bool
}

// NewProxy starts a proxy before a target, until the test ends.
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

// serve passes on what one connection carries.
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

// wait returns once something may be passed on; false if connections are cut.
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

// Cut closes all connections, and those that come, as where the server is killed.
func (p *Proxy) Cut() {
	p.set(func() {
		p.cut = true
		for c := range p.conns {
			_ = c.Close()
		}
	})
}

// Hold passes nothing on, and closes nothing, as a network that is partitioned.
func (p *Proxy) Hold() { p.set(func() { p.held = true }) }

// Slow delays all that is passed on, each way.
func (p *Proxy) Slow(by time.Duration) { p.set(func() { p.delay = by }) }

// Pass ends all faults.
func (p *Proxy) Pass() { p.set(func() { p.cut, p.held, p.delay = false, false, 0 }) }
