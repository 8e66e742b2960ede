package limits

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// What [Body.Grow] refuses with.
var (
	// ErrFull says that there is no room, and that no slower sender holds any.
	ErrFull = errors.New("the memory for requests is in use")
	// ErrSlow says that the sender was cut off to make room: others send faster.
	ErrSlow = errors.New("the body arrived too slowly while memory was short")
)

// Class is one of the two parts of the budget.
type Class int

// The classes of bodies: up to [Small], and beyond.
const (
	SmallBodies Class = iota
	LargeBodies
	classes
)

// Bodies is the budget of request bodies. A body is charged for the memory that it
// occupies, as it arrives. Bodies up to [Small] have a reserve of their own, so that
// large ones cannot keep them out; beyond it they are charged as large ones are, as long as
// there is room for that. When a part is full, the slowest sender that is
// still sending is cut off, if it is clearly slower than the one that needs room.
// Bodies that have arrived whole stay. Its methods may be called from any goroutine.
type Bodies struct {
	mu      sync.Mutex // protects all below, and the fields of each Body
	parts   [classes]part
	senders []*Body
	next    int // where the next search for a slow sender begins
	cut     func(sender any)
}

type part struct {
	limit, held int64
	full, slow  uint64 // refusals
}

// NewBodies makes a budget of so many bytes. Cut ends the read of a sender's body that
// may be waiting; it must not block, nor call back.
func NewBodies(limit int64, cut func(sender any)) *Bodies {
	b := &Bodies{cut: cut}
	b.SetLimit(limit)
	return b
}

// SetLimit changes the budget. What is held beyond it stays until it is freed.
func (b *Bodies) SetLimit(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts[SmallBodies].limit = limit / reserveShare
	b.parts[LargeBodies].limit = limit - limit/reserveShare
}

// MemoryUsage counts what a part of the budget holds and has refused.
type MemoryUsage struct {
	Held, Limit int64
	Full, Slow  uint64 // refusals: no room, and cut off to make room
}

// Usage is that of a class.
func (b *Bodies) Usage(c Class) MemoryUsage {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.parts[c]
	return MemoryUsage{p.held, p.limit, p.full, p.slow}
}

// Body is what one request has been charged. It is used by one goroutine.
type Body struct {
	budget  *Bodies
	sender  any
	began   time.Duration
	arrived atomic.Int64
	held    int64
	class   Class
	index   int // among the senders, −1 if it is none
	cut     bool
}

var bodies = sync.Pool{New: func() any { return &Body{index: -1} }}

// Begin is the body that the sender begins to send. The caller must call Free.
func (b *Bodies) Begin(now time.Duration, sender any) *Body {
	x := bodies.Get().(*Body)
	x.budget, x.sender, x.began = b, sender, now
	b.mu.Lock()
	x.index = len(b.senders)
	b.senders = append(b.senders, x)
	b.mu.Unlock()
	return x
}

// Grow charges the memory of the body up to so many bytes, of which so many have
// arrived. On an error nothing is charged that was not before, and the body should be
// given up.
func (x *Body) Grow(now time.Duration, arrived, size int64) error {
	b := x.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.cut {
		return ErrSlow
	}
	x.arrived.Store(arrived)
	class := SmallBodies
	if size > SmallBody {
		class = LargeBodies
	}
	if class == SmallBodies && !b.fits(x, SmallBodies, size) && b.fits(x, LargeBodies, size) {
		class = LargeBodies
	}
	if !b.room(x, now, class, x.need(class, size)) {
		b.parts[class].full++
		return ErrFull
	}
	b.parts[x.class].held -= x.held
	b.parts[class].held += size
	x.class, x.held = class, size
	return nil
}

// need is what the part has to have left for the body to be of the size.
func (x *Body) need(class Class, size int64) int64 {
	if class == x.class {
		return size - x.held
	}
	return size
}

// fits reports whether there is room without cutting anybody off. The caller holds b.mu.
func (b *Bodies) fits(x *Body, class Class, size int64) bool {
	return b.parts[class].held+x.need(class, size) <= b.parts[class].limit
}

// room makes room for a body by cutting off senders that are slower. The caller holds
// b.mu.
func (b *Bodies) room(x *Body, now time.Duration, class Class, need int64) bool {
	p := &b.parts[class]
	for p.held+need > p.limit {
		slow := b.slowest(now, class, x)
		if slow == nil || slow.rate(now)*slower > x.pace(now) {
			return false
		}
		p.slow++
		p.held -= slow.held
		slow.held, slow.cut = 0, true
		b.leave(slow)
		b.cut(slow.sender)
	}
	return true
}

// The bounds of the choice of a sender to cut off.
const (
	// grace is how long a sender may take before its rate says anything.
	grace = time.Second
	// slower is how many times as fast the one that needs the room must send.
	slower = 2
	// start is the shortest time over which a rate is measured, and usual the rate that
	// one who has just begun is taken to have.
	start = 100 * time.Millisecond
	usual = 16 << 10
	// looked bounds the senders that are compared at once.
	bodiesLooked = 256
)

// slowest is the slowest other sender of the class that has had its grace, of those that
// are looked at; nil if there is none. The caller holds b.mu.
func (b *Bodies) slowest(now time.Duration, class Class, x *Body) (found *Body) {
	for range min(bodiesLooked, len(b.senders)) {
		b.next = (b.next + 1) % len(b.senders)
		s := b.senders[b.next]
		if s != x && s.class == class && s.held > 0 && now-s.began >= grace && (found == nil || s.rate(now) < found.rate(now)) {
			found = s
		}
	}
	return found
}

// rate is in bytes per second since the sender began.
func (x *Body) rate(now time.Duration) float64 {
	return float64(x.arrived.Load()) / max(start, now-x.began).Seconds()
}

// pace is the rate of a sender that needs room: it is at least usual for one who has
// just begun.
func (x *Body) pace(now time.Duration) float64 {
	if now-x.began < grace {
		return max(usual, x.rate(now))
	}
	return x.rate(now)
}

// Arrived notes how much of the body has come, without more memory for it.
func (x *Body) Arrived(n int64) { x.arrived.Store(n) }

// Whole ends the arrival: the body stays charged, and is no longer cut off. It reports
// false if it has been cut off before.
func (x *Body) Whole() bool {
	b := x.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(x)
	return !x.cut
}

// Free gives back what the body was charged. It must not be used after that.
func (x *Body) Free() {
	b := x.budget
	b.mu.Lock()
	b.leave(x)
	b.parts[x.class].held -= x.held
	b.mu.Unlock()
	*x = Body{index: -1}
	bodies.Put(x)
}

// leave takes the body out of the senders. The caller holds b.mu.
func (b *Bodies) leave(x *Body) {
	if x.index < 0 {
		return
	}
	last := len(b.senders) - 1
	b.senders[x.index] = b.senders[last]
	b.senders[x.index].index = x.index
	b.senders[last] = nil
	b.senders = b.senders[:last]
	x.index = -1
}
