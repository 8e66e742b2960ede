package limits

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter admits connections. One that waits for a request makes way for a new one when
// there are too many. Its methods may be called from any goroutine.
type Limiter struct {
	mu        sync.Mutex // protects all below
	bounds    Config
	byAddress map[netip.Prefix]*client
	open      int
	waiting   queue // those without a request at work
	counts    Counts

	exempt func(addr string) bool // from the bound by address

	headers, mostHeaders atomic.Int64 // bytes of headers that arrive
	overHeaders          atomic.Uint64
}

// client is the connections of one address that count by it.
type client struct {
	open    int
	waiting queue
}

// Counts says how many connections were refused or closed.
type Counts struct {
	// Total and Address are those refused for either bound, Headers those closed for
	// lack of memory for their headers, and Idle those closed to make way.
	Total, Address, Headers, Idle uint64
}

// New makes a Limiter with resolved bounds, for a process that may use so much memory.
// Exempt says which addresses besides this machine's have no bound of their own.
func New(bounds Config, memory int64, exempt func(addr string) bool) *Limiter {
	l := &Limiter{byAddress: map[netip.Prefix]*client{}, exempt: exempt}
	l.SetBounds(bounds, memory)
	return l
}

// SetBounds changes the bounds. Connections beyond them stay open.
func (l *Limiter) SetBounds(bounds Config, memory int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bounds = bounds
	l.mostHeaders.Store(memory / headersShare)
}

// Usage is how many connections are open, their bounds, and how many were refused.
func (l *Limiter) Usage() (open int, bounds Config, counts Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts = l.counts
	counts.Headers = l.overHeaders.Load()
	return l.open, l.bounds, counts
}

// Waiting is how many connections are open without a request at work: new ones, and those that
// have been answered.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.length
}

// Listener is l with its connections admitted. One that is refused is sent the refusal,
// if there is one, and closed. Of encrypted ones each byte of a header may be much of one;
// see [Limiter.Hold] for what it was. Refused is called with each refusal; it must not block.
func (l *Limiter) Listener(inner net.Listener, encrypted bool, refusal []byte, refused func(reason string)) net.Listener {
	return &listener{inner, l, encrypted, refusal, refused}
}

type listener struct {
	net.Listener
	limiter *Limiter

	encrypted bool
	refusal   []byte
	refused   func(reason string)
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, reason, victim := l.limiter.admit(inner)
		if victim != nil {
			victim.Close()
		}
		if c != nil {
			c.encrypted = l.encrypted
			return c, nil
		}
		l.refused(reason)
		if l.refusal != nil { // it fits the socket's empty buffer, so this does not wait
			_ = inner.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = inner.Write(l.refusal)
		}
		inner.Close()
	}
}

// The reasons for which a connection is refused.
const (
	ReasonTotal   = "total"
	ReasonAddress = "address"
)

// admit counts a connection, and names one to close instead if there is no room
// for both. It returns none, but the reason, where there is no room at all.
func (l *Limiter) admit(inner net.Conn) (c *Conn, reason string, victim *Conn) {
	from, bounded := addressOf(inner.RemoteAddr())
	bounded = bounded && !l.exempt(inner.RemoteAddr().String())
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.clientOf(from, bounded)
	if bounded && of.open >= l.bounds.PerAddress {
		if victim = of.waiting.first; victim == nil {
			l.counts.Address++
			return nil, ReasonAddress, nil
		}
	} else if l.open >= l.bounds.Total {
		if victim = l.idle(); victim == nil {
			l.counts.Total++
			return nil, ReasonTotal, nil
		}
	}
	if victim != nil {
		l.counts.Idle++
		l.forget(victim)
	}
	c = &Conn{Conn: inner, limiter: l, from: from, of: of}
	l.open++
	if of != nil {
		of.open++
		l.byAddress[from] = of
	}
	l.wait(c)
	return c, "", victim
}

// clientOf is the client of the address, a new one if it has no connection; nil if it has no
// bound. The caller holds l.mu.
func (l *Limiter) clientOf(from netip.Prefix, bounded bool) *client {
	if !bounded {
		return nil
	}
	if of := l.byAddress[from]; of != nil {
		return of
	}
	return &client{waiting: queue{own: true}}
}

// looked bounds the connections that are compared for who makes way.
const looked = 64

// idle is a connection that waits: of those that have waited longest, one of the address
// with the most connections. The caller holds l.mu.
func (l *Limiter) idle() (found *Conn) {
	c := l.waiting.first
	for n := 0; c != nil && n < looked; n, c = n+1, c.in[0].next {
		if found == nil || c.of.size() > found.of.size() {
			found = c
		}
	}
	return found
}

func (c *client) size() int {
	if c == nil {
		return 0
	}
	return c.open
}

// wait puts a connection among those that wait. The caller holds l.mu, as in leave.
func (l *Limiter) wait(c *Conn) {
	l.waiting.push(c)
	if c.of != nil {
		c.of.waiting.push(c)
	}
}

// leave takes it out of them.
func (l *Limiter) leave(c *Conn) {
	l.waiting.remove(c)
	if c.of != nil {
		c.of.waiting.remove(c)
	}
}

// forget takes a connection out. The caller holds l.mu.
func (l *Limiter) forget(c *Conn) {
	if c.gone {
		return
	}
	c.gone = true
	l.open--
	l.leave(c)
	if c.of != nil {
		if c.of.open--; c.of.open == 0 {
			delete(l.byAddress, c.from)
		}
	}
}

// queue is connections in the order in which they began to wait: of all, or of one client.
type queue struct {
	own         bool
	first, last *Conn
	length      int
}

// member links a connection to its neighbours in a queue.
type member struct {
	waits        bool
	before, next *Conn
}

func (q *queue) member(c *Conn) *member {
	if q.own {
		return &c.in[1]
	}
	return &c.in[0]
}

func (q *queue) push(c *Conn) {
	*q.member(c) = member{waits: true, before: q.last}
	if q.last == nil {
		q.first = c
	} else {
		q.member(q.last).next = c
	}
	q.last = c
	q.length++
}

// remove takes a connection out, if it is in.
func (q *queue) remove(c *Conn) {
	m := *q.member(c)
	if !m.waits {
		return
	}
	if m.before == nil {
		q.first = m.next
	} else {
		q.member(m.before).next = m.next
	}
	if m.next == nil {
		q.last = m.before
	} else {
		q.member(m.next).before = m.before
	}
	*q.member(c) = member{}
	q.length--
}

// addressOf is what a connection is counted by; false if it is exempt.
func addressOf(a net.Addr) (netip.Prefix, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !addr.IsValid() || addr.IsLoopback() {
		return netip.Prefix{}, false
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	return p, err == nil
}

// Conn is an admitted connection.
type Conn struct {
	net.Conn
	limiter *Limiter
	from    netip.Prefix
	of      *client // nil if it is not bounded by address

	encrypted bool

	busy   atomic.Bool  // a request is at work
	header atomic.Int64 // what came while none was has cost, charged beyond freeHeader

	// Protected by limiter.mu.
	in   [2]member // the queues of all, and of its client
	gone bool
}

var errHeaders = errors.New("no memory is left for headers")

// Read implements [net.Conn]. What comes while no request is at work is a header.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.busy.Load() {
		cost := c.costOf(p[:n])
		if total := c.header.Add(cost); total > freeHeader {
			charged := min(cost, total-freeHeader)
			if c.limiter.headers.Add(charged) > c.limiter.mostHeaders.Load() {
				c.limiter.overHeaders.Add(1)
				c.Conn.Close()
				return n, errHeaders // what was charged is given back at Close
			}
		}
	}
	return n, err
}

// Begin says that a request of the connection is at work: it makes way for none. What the
// header of an encrypted one came to is known then; see [Limiter.Hold].
func (c *Conn) Begin() {
	if c.busy.Swap(true) {
		return
	}
	if c.encrypted {
		c.settle()
	}
	c.limiter.mu.Lock()
	c.limiter.leave(c)
	c.limiter.mu.Unlock()
}

// Idle says that none is.
func (c *Conn) Idle() {
	c.settle()
	c.busy.Store(false)
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if !c.in[0].waits && !c.gone {
		c.limiter.wait(c)
	}
}

// settle gives back what the header was charged.
func (c *Conn) settle() {
	if total := c.header.Swap(0); total > freeHeader {
		c.limiter.headers.Add(freeHeader - total)
	}
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.limiter.mu.Lock()
	c.limiter.forget(c)
	c.limiter.mu.Unlock()
	c.settle()
	return err
}
