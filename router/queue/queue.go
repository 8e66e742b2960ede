// Package queue is the order in which requests wait that cannot be begun yet: by
// priority, in fair shares of tenants, and each tenant's by deadline. It holds no
// lock and reads no clock: whoever holds it passes times in, and is one goroutine
// at a time.
package queue

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Queue is start-time fair queueing (Goyal, Vin and Cheng 1996) on two levels, of
// the classes of a priority and of the tenants of a class. Each class and tenant has
// a tag, the service that it has had; what waits with the smallest tag goes next.
// One that comes anew starts at the tag of the last served: it has no claim for the
// time that it did not wait.
type Queue[T any] struct {
	levels   []*level[T] // from the highest priority
	classes  []*class[T] // by index
	limit    int
	size     int
	arrivals uint64
}

// level is the classes of one priority.
type level[T any] struct {
	priority int
	classes  []*class[T]
	virtual  float64 // the tag of the class served last
	size     int
}

type class[T any] struct {
	level   *level[T]
	share   float64
	tag     float64
	virtual float64 // the tag of the tenant served last
	tenants map[string]*flow[T]
	size    int
}

// flow is what one tenant has waiting in a class.
type flow[T any] struct {
	class   *class[T]
	tenant  string
	tag     float64
	waiting []*Entry[T] // by Until, then arrival
}

// New makes a queue for at most limit entries. There is at least one class; shares
// that are not above zero count as 1.
func New[T any](classes []Class, limit int) *Queue[T] {
	q := &Queue[T]{}
	q.Set(classes, limit)
	return q
}

// Set changes the classes, and the limit. A class is known by its index: there are at
// least as many as before. All that waits stays, each tenant's in its order, also above
// a lower limit. A class of another priority comes anew among those.
func (q *Queue[T]) Set(classes []Class, limit int) {
	before := q.levels
	q.limit, q.levels = limit, nil
	for i, c := range classes {
		if i == len(q.classes) {
			q.classes = append(q.classes, &class[T]{tenants: map[string]*flow[T]{}})
		}
		k, l := q.classes[i], q.leveled(c.Priority, before)
		if k.level == nil || k.level.priority != c.Priority {
			k.tag = l.virtual
		}
		if k.level, k.share = l, c.Share; !(k.share > 0) {
			k.share = 1
		}
		l.classes = append(l.classes, k)
		l.size += k.size
	}
	for _, l := range q.levels {
		l.tidy()
	}
	slices.SortFunc(q.levels, func(a, b *level[T]) int { return cmp.Compare(b.priority, a.priority) })
}

// leveled is the level of the priority, made if need be, as far as that was before.
func (q *Queue[T]) leveled(priority int, before []*level[T]) *level[T] {
	of := func(l *level[T]) bool { return l.priority == priority }
	if at := slices.IndexFunc(q.levels, of); at >= 0 {
		return q.levels[at]
	}
	l := &level[T]{priority: priority}
	if at := slices.IndexFunc(before, of); at >= 0 {
		l.virtual = before[at].virtual
	}
	q.levels = append(q.levels, l)
	return l
}

// Len is the number of entries.
func (q *Queue[T]) Len() int { return q.size }

// Waiting is the number of entries of a class.
func (q *Queue[T]) Waiting(class int) int { return q.classes[class].size }

// Full says that one has to make way before another can wait.
func (q *Queue[T]) Full() bool { return q.size >= q.limit }

// Admits says whether Push would let the entry wait now.
func (q *Queue[T]) Admits(e *Entry[T]) bool {
	return !q.Full() || q.least(q.classes[e.Class], e.Tenant) != nil
}

// Push lets the entry wait. If the queue is full, one that has less claim to a place
// makes way and is returned: one of the lowest priority below, else the last of the
// tenant with the most waiting, if that has more than the entry's own tenant with the
// entry. If there is none, Push reports false and the entry does not wait.
func (q *Queue[T]) Push(e *Entry[T]) (displaced *Entry[T], ok bool) {
	c := q.classes[e.Class]
	if q.Full() {
		if displaced = q.least(c, e.Tenant); displaced == nil {
			return nil, false
		}
		q.Remove(displaced)
	}
	f := c.tenants[e.Tenant]
	if f == nil {
		f = &flow[T]{class: c, tenant: e.Tenant}
		c.tenants[e.Tenant] = f
	}
	if c.size == 0 {
		c.tag = max(c.tag, c.level.virtual)
	}
	if len(f.waiting) == 0 {
		f.tag = max(f.tag, c.virtual)
	}
	q.arrivals++
	e.arrival, e.in = q.arrivals, f
	at, _ := slices.BinarySearchFunc(f.waiting, e, earlier)
	f.waiting = slices.Insert(f.waiting, at, e)
	q.count(c, 1)
	return displaced, true
}

func earlier[T any](a, b *Entry[T]) int {
	return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.arrival, b.arrival))
}

func (q *Queue[T]) count(c *class[T], n int) {
	c.size += n
	c.level.size += n
	q.size += n
}

// least is the entry with the least claim to a place, if that is less than a newcomer
// of the class and tenant has, else nil.
func (q *Queue[T]) least(c *class[T], tenant string) *Entry[T] {
	at := len(q.levels) - 1
	for at >= 0 && q.levels[at].size == 0 {
		at--
	}
	if at < 0 || q.levels[at].priority > c.level.priority {
		return nil
	}
	var longest *flow[T]
	for _, k := range q.levels[at].classes {
		for _, f := range k.tenants {
			if len(f.waiting) > 0 && (longest == nil || f.outweighs(longest)) {
				longest = f
			}
		}
	}
	if q.levels[at] == c.level {
		own := 1.0
		if f := c.tenants[tenant]; f != nil {
			own += float64(len(f.waiting))
		}
		if longest.weight() <= own/c.share {
			return nil
		}
	}
	return longest.waiting[len(longest.waiting)-1]
}

// weight is how much waits, relative to the class's share.
func (f *flow[T]) weight() float64 { return float64(len(f.waiting)) / f.class.share }

// outweighs orders flows by weight, and equals in a way that repeats.
func (f *flow[T]) outweighs(g *flow[T]) bool {
	return cmp.Or(cmp.Compare(f.weight(), g.weight()), cmp.Compare(f.tag, g.tag), cmp.Compare(f.tenant, g.tenant)) > 0
}

// Remove takes the entry out, as if it had never come. It reports false if it does
// not wait.
func (q *Queue[T]) Remove(e *Entry[T]) bool {
	f := e.in
	if f == nil {
		return false
	}
	e.in = nil
	at, _ := slices.BinarySearchFunc(f.waiting, e, earlier)
	f.waiting = slices.Delete(f.waiting, at, at+1)
	q.count(f.class, -1)
	f.class.tidy(f)
	return true
}

// tidy forgets a tenant without entries once it has no more service to its account
// than others have had.
func (c *class[T]) tidy(f *flow[T]) {
	c.level.tidy()
	if c.size == 0 {
		clear(c.tenants)
		c.virtual = 0
		return
	}
	if len(f.waiting) == 0 && f.tag <= c.virtual {
		delete(c.tenants, f.tenant)
	}
}

// tidy forgets what classes have had once there is nobody to be fair to.
func (l *level[T]) tidy() {
	if l.size > 0 {
		return
	}
	l.virtual = 0
	for _, k := range l.classes {
		k.tag = 0
	}
}

// Take removes and returns the first entry, in order, that fits; nil if none does.
// Entries that do not fit keep their place. Fits is asked in order, of each at most
// once, and must not use the queue.
func (q *Queue[T]) Take(fits func(*Entry[T]) bool) *Entry[T] {
	for _, l := range q.levels {
		if l.size == 0 {
			continue
		}
		for _, c := range l.order() {
			for _, f := range c.order() {
				for _, e := range f.waiting {
					if fits(e) {
						q.serve(e)
						return e
					}
				}
			}
		}
	}
	return nil
}

func (l *level[T]) order() []*class[T] {
	if len(l.classes) == 1 {
		return l.classes
	}
	list := slices.DeleteFunc(slices.Clone(l.classes), func(c *class[T]) bool { return c.size == 0 })
	slices.SortStableFunc(list, func(a, b *class[T]) int { return cmp.Compare(a.tag, b.tag) })
	return list
}

// order is the tenants with entries; of equal tags the one whose first is due first.
func (c *class[T]) order() []*flow[T] {
	list := make([]*flow[T], 0, len(c.tenants))
	for _, f := range c.tenants {
		if len(f.waiting) > 0 {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *flow[T]) int {
		return cmp.Or(cmp.Compare(a.tag, b.tag), earlier(a.waiting[0], b.waiting[0]))
	})
	return list
}

// serve charges the entry to its tenant and class and takes it out.
func (q *Queue[T]) serve(e *Entry[T]) {
	cost := e.Cost
	if !(cost > 0) {
		cost = 1
	}
	f, c := e.in, e.in.class
	c.level.virtual = max(c.level.virtual, c.tag)
	c.tag += cost / c.share
	c.virtual = max(c.virtual, f.tag)
	f.tag += cost
	q.Remove(e)
	var least *flow[T]                // of those without entries that stay, by service
	for _, other := range c.tenants { // whom the others have caught up with
		if len(other.waiting) == 0 {
			c.tidy(other)
			if other.tag > c.virtual && (least == nil || cmp.Or(cmp.Compare(other.tag, least.tag), cmp.Compare(other.tenant, least.tenant)) < 0) {
				least = other
			}
		}
	}
	// Where each request has a tenant of its own nobody is ever caught up with. The
	// one that had least is then let off what it had, as are all that come anew.
	if len(c.tenants) > 2*q.limit && least != nil {
		c.virtual = max(c.virtual, least.tag)
		c.tidy(least)
	}
}

// Expire removes and returns the entries whose time is over: those that should begin
// by now. Whoever may still serve them does so before.
func (q *Queue[T]) Expire(now time.Duration) []*Entry[T] {
	var over []*Entry[T]
	for e := range q.first() {
		for _, late := range e.in.waiting {
			if late.Until <= now {
				over = append(over, late)
			}
		}
	}
	slices.SortFunc(over, earlier)
	for _, e := range over {
		q.Remove(e)
	}
	return over
}

// Next is when the first entry's time is over; false if nothing waits.
func (q *Queue[T]) Next() (until time.Duration, ok bool) {
	until = math.MaxInt64
	for e := range q.first() {
		until, ok = min(until, e.Until), true
	}
	return until, ok
}

// first is the first entry of each tenant, in no order.
func (q *Queue[T]) first() func(yield func(*Entry[T]) bool) {
	return func(yield func(*Entry[T]) bool) {
		for _, c := range q.classes {
			for _, f := range c.tenants {
				if len(f.waiting) > 0 && !yield(f.waiting[0]) {
					return
				}
			}
		}
	}
}

// Ahead is about how many entries go before one of the class and tenant that should
// begin by until: all of higher priority, those of its tenant that are due earlier,
// and of each other tenant as many as its own have turns.
func (q *Queue[T]) Ahead(class int, tenant string, until time.Duration) int {
	c := q.classes[class]
	var own int
	if f := c.tenants[tenant]; f != nil {
		for own < len(f.waiting) && f.waiting[own].Until <= until {
			own++
		}
	}
	ahead := own
	for _, l := range q.levels {
		if l.priority > c.level.priority {
			ahead += l.size
		}
	}
	for _, k := range c.level.classes {
		turns := int(min(math.Ceil(float64(own+1)*k.share/c.share), float64(q.size)))
		for _, f := range k.tenants {
			if k != c || f.tenant != tenant {
				ahead += min(len(f.waiting), turns)
			}
		}
	}
	return ahead
}
