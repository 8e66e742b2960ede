package access

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// This file slows down those who guess secrets: it counts the failed tries of each
// address, and holds the answer to one back. A right secret forgives no wrong ones, which may be of
// another process at the same address. Time is an argument.

// Answers to the failed tries of an address are apart by step, which grows by as much
// with every perStep failures, up to most; the first few cost nothing, as people mistype.
const (
	free    = 5
	step    = 10 * time.Millisecond
	perStep = 50
	most    = time.Second
	// backlog is how far ahead answers are held back. Beyond it no try is looked at.
	backlog = 2 * time.Second
	// forget is the time without a failure after which an address is as good as new.
	forget = 15 * time.Minute
	// addresses bounds the memory. Beyond it those that failed longest ago are forgotten.
	addresses = 4096
)

// Tries counts failed tries by address. Its zero value is ready, and its methods may
// be called from any goroutine.
type Tries struct {
	mu sync.Mutex // protects what follows
	// recent has the clients that failed last, at most half of addresses, and before
	// those of the generation that it replaced.
	recent, before map[netip.Prefix]*record
}

type record struct {
	failed int
	last   time.Duration // when the last one failed
	next   time.Duration // when the next answer to one is due
}

// network is what counts as one client: an address, or the /64 that is one customer's.
func network(client string) netip.Prefix {
	a, err := netip.ParseAddr(client)
	if err != nil {
		return netip.Prefix{} // all that have none are one
	}
	bits := 32
	if a = a.Unmap().WithZone(""); a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// Wait is how long the client is to wait until another try of its is looked at; zero
// if it may try now.
func (c *Tries) Wait(client string, now time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.find(network(client))
	if r == nil || r.next-now <= backlog {
		return 0
	}
	return r.next - now - backlog
}

// Failed notes that a try was wrong. It returns how many were, and how long the answer
// is held back: tries side by side wait for one another.
func (c *Tries) Failed(client string, now time.Duration) (failed int, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := network(client)
	r := c.find(key)
	if r == nil || now-r.last > forget {
		r = new(record)
	}
	c.keep(key, r)
	r.failed++
	r.last = now
	if r.failed <= free {
		return r.failed, 0
	}
	r.next = max(r.next, now) + min(most, step*time.Duration(1+r.failed/perStep))
	return r.failed, r.next - now
}

// Hold notes that a try was wrong, and returns how many were once it may be answered, or the context
// has ended.
func (c *Tries) Hold(ctx context.Context, client string, now time.Duration) (failed int) {
	failed, wait := c.Failed(client, now)
	if wait <= 0 {
		return failed
	}
	timer := time.NewTimer(min(wait, backlog))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return failed
}

// find is the client's record, or nil. The caller holds c.mu.
func (c *Tries) find(key netip.Prefix) *record {
	if r := c.recent[key]; r != nil {
		return r
	}
	return c.before[key]
}

// keep has the record be among the recent ones. The caller holds c.mu.
func (c *Tries) keep(key netip.Prefix, r *record) {
	if c.recent[key] == nil && len(c.recent) >= addresses/2 || c.recent == nil {
		c.before, c.recent = c.recent, map[netip.Prefix]*record{}
	}
	c.recent[key] = r
}

// Len is how many clients are remembered.
func (c *Tries) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.recent) + len(c.before)
}
