package env

import (
	"math"
	"slices"
	"time"

	"gearshift/env/engine"
	"gearshift/router/control"
	"gearshift/router/signals"
)

// SharedOptions describe a [SharedHost].
type SharedOptions struct {
	// Cores is how many requests it works on at full speed; more than that share them.
	Cores float64
	// Bandwidth is that of its memory, in any unit. Zero has memory slow nothing, and without
	// Stalls it must be zero.
	Bandwidth float64
	Stalls    *Stalls
	// Uses is what a request in a slot uses of the bandwidth while it has a core at full speed.
	Uses []float64
	// Turns has it run one request of a slot at a time, in the order in which they came, as
	// engines without batches do. Otherwise all that it has share its cores.
	Turns bool
	// Until is when Busy ends to count.
	Until time.Duration
}

// SharedHost is the law of a host that works on all requests at a time: these share its cores, and
// slow each other down where they ask for more of its memory's bandwidth than there is. Each request has got as much work done since it came as any other, so
// that one number, received, says how far all are: a request ends when received has risen by
// its work.
type SharedHost struct {
	SharedOptions
	running  sharedRequests
	counts   []int // of requests, by slot
	loads    int   // of running, those that load a replica
	work     time.Duration
	received float64 // seconds of work that each request has got so far
	speed    float64 // how fast it rises
	at       time.Duration
	next     time.Duration // when a request ends, unless others come
	more     bool          // another one has ended that no step has taken off
	memory   memory
	reported sharedReport
	turns    *turns // nil where all requests run at a time

	// Busy is the seconds of all cores that were busy, until Until.
	Busy float64
	// Used and Moved are the same without an end, and what was moved of the bandwidth.
	Used, Moved float64
}

var _ interface {
	Law
	Loader
} = (*SharedHost)(nil)

// NewSharedHost makes an idle host.
func NewSharedHost(o SharedOptions) *SharedHost {
	n := len(o.Uses)
	h := &SharedHost{SharedOptions: o, counts: make([]int, n), memory: memory{bandwidth: o.Bandwidth, stalls: o.Stalls}, reported: sharedReport{takes: make([][levels]float32, n)}}
	if o.Turns {
		h.turns = newTurns(n)
	}
	h.revise()
	return h
}

// sharedRequest is one on a host; the load of a replica is one too.
type sharedRequest struct {
	ends     float64 // when received is as much; of one that waits for its turn its work
	id       uint64
	since    time.Duration
	expected time.Duration
	slot     int32
	found    int32 // requests of the slot when it came; −1 of a load
}

// loads reports whether it is the load of a replica.
func (r *sharedRequest) loads() bool { return r.found < 0 }

// sharedRequests is a heap, the first to end on top.
type sharedRequests []sharedRequest

func (r *sharedRequests) push(x sharedRequest) {
	list := append(*r, x)
	*r = list
	i := len(list) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !(x.ends < list[parent].ends) {
			break
		}
		list[i] = list[parent]
		i = parent
	}
	list[i] = x
}

func (r *sharedRequests) pop() sharedRequest {
	list := *r
	top, last := list[0], len(list)-1
	list[0] = list[last]
	list = list[:last]
	*r = list
	list.sink(0)
	return top
}

// keep keeps those for which f returns true.
func (r *sharedRequests) keep(f func(x *sharedRequest) bool) {
	kept := (*r)[:0]
	for i := range *r {
		if x := (*r)[i]; f(&x) {
			kept = append(kept, x)
		}
	}
	*r = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		kept.sink(i)
	}
}

func (r sharedRequests) sink(i int) {
	if i >= len(r) {
		return
	}
	x := r[i]
	for {
		child := 2*i + 1
		if child >= len(r) {
			break
		}
		if right := child + 1; right < len(r) && r[right].ends < r[child].ends {
			child = right
		}
		if !(r[child].ends < x.ends) {
			break
		}
		r[i] = r[child]
		i = child
	}
	r[i] = x
}

// revise works out from what the host has now how fast requests get on, relative to one alone on
// a core, and when one ends.
func (h *SharedHost) revise() {
	share := min(1, h.Cores/float64(max(1, len(h.running))))
	h.speed = share / h.memory.stretch(share)
	switch {
	case len(h.running) == 0:
		h.next = control.Never
	case h.more:
		h.next = h.at
	default:
		h.next = h.at + time.Duration(math.Ceil(max(0, h.running[0].ends-h.received)/h.speed*1e9))
	}
}

// Advance has time pass.
func (h *SharedHost) Advance(now time.Duration) {
	passed := (now - h.at).Seconds()
	busy := min(h.Cores, float64(len(h.running)))
	h.received += passed * h.speed
	h.Busy += max(0, min(now, h.Until)-h.at).Seconds() * busy
	h.Used += passed * busy
	h.Moved += passed * h.memory.moving
	h.reported.advance(passed*busy, now, h.Cores)
	h.at = now
}

// Poll has the host answer a poll before its requests, which takes so much of a core. Where all
// cores are busy these get as much less.
func (h *SharedHost) Poll(work, now time.Duration) {
	h.Advance(now)
	if n := float64(len(h.running)); n >= h.Cores {
		h.received -= work.Seconds() / n
	} else {
		if h.at < h.Until {
			h.Busy += work.Seconds()
		}
		h.Used += work.Seconds()
		h.reported.worked += work.Seconds()
	}
	h.revise()
}

// Hog has something that is no request ask for more of the bandwidth, or for less.
func (h *SharedHost) Hog(more float64, now time.Duration) {
	h.Advance(now)
	h.memory.hogged += more
	h.revise()
}

// Submit implements [env.Law].
func (h *SharedHost) Submit(slot int, s engine.Sequence, now time.Duration) {
	h.Advance(now)
	r := sharedRequest{ends: s.Work.Seconds(), id: s.ID, since: s.Since, expected: s.Expected, slot: int32(slot), found: int32(h.counts[slot])}
	h.counts[slot]++
	h.work += s.Expected
	if !h.turns.waits(&r) {
		h.run(r)
	}
	h.revise()
}

// Load implements [env.Loader].
func (h *SharedHost) Load(slot int, work, now time.Duration) {
	h.Advance(now)
	h.loads++
	h.run(sharedRequest{ends: work.Seconds(), slot: int32(slot), found: -1})
	h.revise()
}

// run has a request share the cores from now on.
func (h *SharedHost) run(r sharedRequest) {
	r.ends += h.received
	h.running.push(r)
	h.memory.asked += h.Uses[r.slot]
}

// rounding is how many seconds of work are lost as times are rounded to nanoseconds.
const rounding = 1e-8

// due reports whether a request has ended.
func (h *SharedHost) due() bool {
	return len(h.running) > 0 && h.running[0].ends <= h.received+rounding
}

// Next implements [env.Law].
func (h *SharedHost) Next() (time.Duration, bool) { return h.next, h.next != control.Never }

// Step implements [env.Law]: one request ends, unless what it needs is not there by a rounding.
func (h *SharedHost) Step(dst []engine.Event) []engine.Event {
	if h.next == control.Never {
		return dst
	}
	if h.Advance(h.next); !h.due() {
		h.revise()
		return dst
	}
	r := h.running.pop()
	h.leave(&r)
	if next, ok := h.turns.next(&r); ok {
		h.run(next)
	}
	h.more = h.due()
	h.revise()
	e := engine.Event{Engine: int(r.slot), ID: r.id, At: h.at, Kind: engine.Finished}
	if r.loads() {
		e.Kind = engine.Loaded
	} else {
		h.reported.answered(int(r.slot), r.found, h.at-r.since)
	}
	return append(dst, e)
}

// leave follows a request that runs no longer.
func (h *SharedHost) leave(r *sharedRequest) {
	if h.memory.asked -= h.Uses[r.slot]; len(h.running) == 0 {
		h.memory.asked = 0 // what additions have rounded is over
	}
	h.forget(r)
}

// forget counts a request no longer.
func (h *SharedHost) forget(r *sharedRequest) {
	if r.loads() {
		h.loads--
		return
	}
	h.counts[r.slot]--
	h.work -= r.expected
}

// Cancel ends a request that runs, without an answer.
func (h *SharedHost) Cancel(id uint64, now time.Duration) {
	h.Advance(now)
	i := slices.IndexFunc(h.running, func(r sharedRequest) bool { return r.id == id && !r.loads() })
	if i < 0 {
		return
	}
	r := h.running[i]
	h.running.keep(func(x *sharedRequest) bool { return x.id != id || x.loads() })
	h.leave(&r)
	h.more = h.more && h.due()
	h.revise()
}

// Break implements [env.Law]. A load of one slot goes on.
func (h *SharedHost) Break(slot int, now time.Duration, f func(id uint64)) {
	if slot >= 0 && h.counts[slot] == 0 {
		return
	}
	h.Advance(now)
	var gone []sharedRequest
	h.running.keep(func(x *sharedRequest) bool {
		stays := slot >= 0 && (x.loads() || int(x.slot) != slot)
		if !stays {
			gone = append(gone, *x)
		}
		return stays
	})
	for i := range gone {
		h.leave(&gone[i])
	}
	for s := range h.counts {
		if slot < 0 || s == slot {
			waited := h.turns.clear(s)
			for i := range waited {
				h.forget(&waited[i])
			}
			gone = append(gone, waited...)
		}
	}
	h.more = h.more && h.due()
	h.revise()
	for i := range gone {
		if !gone[i].loads() {
			f(gone[i].id)
		}
	}
}

// Each implements [env.Law]. No request has tokens.
func (h *SharedHost) Each(slot int, f func(id uint64, generated int)) {
	for i := range h.running {
		if r := &h.running[i]; int(r.slot) == slot && !r.loads() {
			f(r.id, 0)
		}
	}
	h.turns.each(slot, func(r *sharedRequest) { f(r.id, 0) })
}

// Counters returns what the host says to a client of the slot's model.
func (h *SharedHost) Counters(slot int) signals.Counters {
	return signals.Counters{
		Model: h.counts[slot], Host: len(h.running) - h.loads + h.turns.length(), Work: h.work, Cores: h.Cores,
		Took: h.reported.estimate(slot, h.counts[slot]), Use: h.reported.use, Rate: h.reported.rate,
	}
}

// Work returns the work that is expected of the requests that the host has.
func (h *SharedHost) Work() time.Duration { return h.work }
