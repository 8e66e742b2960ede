package memnet

import (
	"net"
	"os"
	"sync"
	"time"
)

// Packets is a network of packets, such as QUIC's. The zero value is ready.
type Packets struct {
	// Lose, if not nil, reports whether a packet is lost.
	Lose func() bool

	mu   sync.Mutex // protects all below
	ends map[int]*packetConn
	last int
}

// waiting is how many packets an end holds that nobody has read; more are lost.
const waiting = 1024

type packet struct {
	data []byte
	from net.Addr
}

type packetConn struct {
	net    *Packets
	addr   *net.UDPAddr
	in     chan packet
	mu     sync.Mutex    // protects late
	late   chan struct{} // closed once reads are over
	closed chan struct{}
	once   sync.Once
}

// Listen makes an end with an address of its own.
func (p *Packets) Listen() net.PacketConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends == nil {
		p.ends = map[int]*packetConn{}
	}
	p.last++
	c := &packetConn{net: p, addr: p.Addr(p.last).(*net.UDPAddr), in: make(chan packet, waiting), late: make(chan struct{}), closed: make(chan struct{})}
	p.ends[p.last] = c
	return c
}

// ReadFrom implements [net.PacketConn].
func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	c.mu.Lock()
	late := c.late
	c.mu.Unlock()
	select {
	case p := <-c.in:
		return copy(b, p.data), p.from, nil
	case <-late:
		return 0, nil, os.ErrDeadlineExceeded
	case <-c.closed:
		return 0, nil, net.ErrClosed
	}
}

// WriteTo implements [net.PacketConn].
func (c *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	at, ok := to.(*net.UDPAddr)
	if !ok || c.net.ends[at.Port] == nil || c.net.Lose != nil && c.net.Lose() {
		return len(b), nil
	}
	select {
	case c.net.ends[at.Port].in <- packet{append([]byte(nil), b...), c.addr}:
	default:
	}
	return len(b), nil
}

// Close implements [net.PacketConn].
func (c *packetConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.net.mu.Lock()
		delete(c.net.ends, c.addr.Port)
		c.net.mu.Unlock()
	})
	return nil
}

// LocalAddr implements [net.PacketConn].
func (c *packetConn) LocalAddr() net.Addr { return c.addr }

// SetReadDeadline ends reads if it is not zero, at whatever time: those who end to read set it so.
func (c *packetConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.late:
		if t.IsZero() {
			c.late = make(chan struct{})
		}
	default:
		if !t.IsZero() {
			close(c.late)
		}
	}
	return nil
}

// SetDeadline implements [net.PacketConn].
func (c *packetConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements [net.PacketConn]: writes do not wait.
func (c *packetConn) SetWriteDeadline(time.Time) error { return nil }

// Addr returns the address of an end by its number, from 1.
func (p *Packets) Addr(n int) net.Addr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n} }
