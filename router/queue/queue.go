// Package queue orders the requests that wait: by priority, in fair shares of classes and
// tenants, and each tenant's by deadline. It holds no lock and reads no clock: its owner
// passes times in, and calls it from one goroutine at a time.
package queue

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Queue implements start-time fair queueing (Goyal, Vin and Cheng 1996) on two levels: the
// classes of a priority, and the tenants of a class. Each class and tenant has a tag, the
// service that it has had; the one with the smallest tag goes next. A class or tenant that
// begins to wait starts at the tag of the last one served, so that it is owed nothing for
// the time in which it did not wait.
type Queue[T any] struct {
	levels   []*level[T] // from the highest priority
	classes  []*class[T] // by index
	limit    int
	size     int
	arrivals uint64
}

// level holds the classes of one priority.
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

// flow holds the entries of one tenant in a class.
type flow[T any] struct {
	class   *class[T]
	tenant  string
	tag     float64
	waiting []*Entry[T] // by Until, then arrival
}

// New makes a queue for at most limit entries. It needs at least one class. Shares that are
// not above zero count as 1.
func New[T any](classes []Class, limit int) *Queue[T] {
	q := &Queue[T]{}
	q.Set(classes, limit)
	return q
}

// Set changes the classes and the limit. A class is identified by its index, so there must
// be at least as many as before. All entries stay, each tenant's in its order, even above a
// lower limit. A class whose priority changes starts like one that has not waited before.
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

// leveled returns the level of the priority. A new one continues the level of that priority
// among those before.
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

// Len returns the number of entries.
func (q *Queue[T]) Len() int { return q.size }

// Waiting returns the number of entries of a class.
func (q *Queue[T]) Waiting(class int) int { return q.classes[class].size }

// Full reports whether a new entry can wait only if another is evicted.
func (q *Queue[T]) Full() bool { return q.size >= q.limit }

// Admits reports whether Push would let the entry wait now.
func (q *Queue[T]) Admits(e *Entry[T]) bool {
	return !q.Full() || q.evictable(q.classes[e.Class], e.Tenant) != nil
}

// Push adds the entry. If the queue is full, it evicts and returns another entry: one of the
// lowest priority, if that is below the entry's own, else the last of the tenant with the
// most entries, if that has more than the entry's tenant would have. If there is none, Push
// reports false and the entry does not wait.
func (q *Queue[T]) Push(e *Entry[T]) (evicted *Entry[T], ok bool) {
	c := q.classes[e.Class]
	if q.Full() {
		if evicted = q.evictable(c, e.Tenant); evicted == nil {
			return nil, false
		}
		q.Remove(evicted)
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
	return evicted, true
}

func earlier[T any](a, b *Entry[T]) int {
	return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.arrival, b.arrival))
}

func (q *Queue[T]) count(c *class[T], n int) {
	c.size += n
	c.level.size += n
	q.size += n
}

// evictable returns the entry to evict for a new one of the class and tenant, or nil if all
// entries come before the new one.
func (q *Queue[T]) evictable(c *class[T], tenant string) *Entry[T] {
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

// weight returns how many entries wait, relative to the class's share.
func (f *flow[T]) weight() float64 { return float64(len(f.waiting)) / f.class.share }

// outweighs orders flows by weight, and equal ones in a way that repeats.
func (f *flow[T]) outweighs(g *flow[T]) bool {
	return cmp.Or(cmp.Compare(f.weight(), g.weight()), cmp.Compare(f.tag, g.tag), cmp.Compare(f.tenant, g.tenant)) > 0
}

// Remove removes the entry without charging its tenant. It reports false if the entry does
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

// tidy forgets a tenant without entries once the others have had as much service.
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

// tidy resets the tags of the classes once none of them waits: there is no other to be fair
// to.
func (l *level[T]) tidy() {
	if l.size > 0 {
		return
	}
	l.virtual = 0
	for _, k := range l.classes {
		k.tag = 0
	}
}

// Take removes and returns the first entry, in order, for which fits returns true, or nil
// if there is none. The other entries keep their positions. Fits is called in order, at most
// once for each entry, and must not use the queue.
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

// order returns the tenants with entries by their tags; of equal tags the one whose first
// entry is due first.
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
	var least *flow[T] // of the tenants without entries that stay, the one with the least service
	for _, other := range c.tenants {
		if len(other.waiting) == 0 {
			c.tidy(other)
			if other.tag > c.virtual && (least == nil || cmp.Or(cmp.Compare(other.tag, least.tag), cmp.Compare(other.tenant, least.tenant)) < 0) {
				least = other
			}
		}
	}
	// Where each request has a tenant of its own, the others never catch up. To bound the
	// number of tenants, the one with the least service is then forgotten, as if it had had
	// none.
	if len(c.tenants) > 2*q.limit && least != nil {
		c.virtual = max(c.virtual, least.tag)
		c.tidy(least)
	}
}

// Expire removes and returns the entries whose time is over: those that should have begun
// by now. Call Take before it for those that can still begin.
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

// Next returns when the first entry's time is over, and false if nothing waits.
func (q *Queue[T]) Next() (until time.Duration, ok bool) {
	until = math.MaxInt64
	for e := range q.first() {
		until, ok = min(until, e.Until), true
	}
	return until, ok
}

// first iterates over the first entry of each tenant, in no order.
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

// turns counts the entries of the tenant that are not idle, up to the most given.
func (f *flow[T]) turns(most int) (n int) {
	for i := 0; i < len(f.waiting) && n < most; i++ {
		if !f.waiting[i].Idle {
			n++
		}
	}
	return n
}

// Ahead estimates how many entries go before one of the class and tenant that should begin
// by until: all of higher priority, those of its tenant that are due earlier, and of each
// other tenant as many as its own tenant has turns. Those that are idle are left out.
func (q *Queue[T]) Ahead(class int, tenant string, until time.Duration) int {
	c := q.classes[class]
	var own int
	if f := c.tenants[tenant]; f != nil {
		for i := 0; i < len(f.waiting) && f.waiting[i].Until <= until; i++ {
			if !f.waiting[i].Idle {
				own++
			}
		}
	}
	ahead := own
	for _, l := range q.levels {
		if l.priority > c.level.priority {
			for _, k := range l.classes {
				for _, f := range k.tenants {
					ahead += f.turns(len(f.waiting))
				}
			}
		}
	}
	for _, k := range c.level.classes {
		turns := int(min(math.Ceil(float64(own+1)*k.share/c.share), float64(q.size)))
		for _, f := range k.tenants {
			if k != c || f.tenant != tenant {
				ahead += f.turns(turns)
			}
		}
	}
	return ahead
}
