package engine

import (
	"time"

	"gearshift/router/profile"
)

// EventKind says what happened to a sequence.
type EventKind uint8

// The kinds of events. A sequence of one token has both at once.
const (
	FirstToken EventKind = iota
	Finished
	// Loaded is of a replica, not of a sequence: the work of its load is done.
	Loaded
)

// Event is something that the end of a step brought about.
type Event struct {
	Engine int
	ID     uint64
	At     time.Duration
	Kind   EventKind
}

// Step describes one engine iteration, for an observer.
type Step struct {
	Engine     int
	Start, End time.Duration
	Decoding   int // sequences that decode
	Joining    int // prompts whose prefill completes
	Tokens     int // new tokens
}

// Host runs the engines that share one GPU. Each step is slowed by the duty of
// the engines that are busy when it begins. A Host is not safe for concurrent
// use.
type Host struct {
	engines  []*Engine
	ends     []time.Duration // of the steps in progress
	next     int             // the engine whose step ends first, or −1
	slowness slowness

	// Observe, if set, is called as each step begins.
	Observe func(Step)
}

// NewHost makes a host of idle engines.
func NewHost(engines ...*Engine) *Host {
	return &Host{engines: engines, ends: make([]time.Duration, len(engines)), next: -1}
}

// Engine is the i-th engine.
func (h *Host) Engine(i int) *Engine { return h.engines[i] }

// Submit puts the sequence, which must fit, into the engine's waiting line; an
// idle engine begins a step at once. now must not lie before the last event.
func (h *Host) Submit(engine int, s Sequence, now time.Duration) {
	e := h.engines[engine]
	e.submit(s, now)
	if !e.step.busy || e.step.gathering {
		h.begin(engine, now)
		h.findNext()
	}
}

// SubmitAll is Submit of several sequences that come at the same moment: a batch may have
// all of them.
func (h *Host) SubmitAll(engine int, sequences []Sequence, now time.Duration) {
	e := h.engines[engine]
	for _, s := range sequences {
		e.submit(s, now)
	}
	if !e.step.busy || e.step.gathering {
		h.begin(engine, now)
		h.findNext()
	}
}

// Delay makes the engine's next step longer by the time, once.
func (h *Host) Delay(engine int, by time.Duration) { h.engines[engine].delay = by }

// Cancel removes a sequence: now if it waits, else at the end of the step in
// progress. It is never Finished. False if the engine does not know it.
func (h *Host) Cancel(engine int, id uint64) bool {
	e := h.engines[engine]
	known := e.cancel(id)
	if e.step.gathering && e.waiting.size == 0 { // no request waits for it
		e.step.gathering, e.step.busy = false, false
		h.findNext()
	}
	return known
}

// Next is when the earliest step in progress ends; false if all are idle.
func (h *Host) Next() (at time.Duration, ok bool) {
	if h.next < 0 {
		return 0, false
	}
	return h.ends[h.next], true
}

// Step ends the earliest step in progress, appends what happened to dst, and
// begins that engine's next step. It does nothing if all engines are idle.
func (h *Host) Step(dst []Event) []Event {
	i := h.next
	if i < 0 {
		return dst
	}
	at := h.ends[i]
	dst = h.engines[i].finish(dst, Event{Engine: i, At: at})
	h.begin(i, at)
	h.findNext()
	return dst
}

// Run is Step for all steps that end until then.
func (h *Host) Run(until time.Duration, dst []Event) []Event {
	for h.next >= 0 && h.ends[h.next] <= until {
		dst = h.Step(dst)
	}
	return dst
}

// Each calls f for each of the engine's sequences with the tokens that it has
// generated: those running first, then those in prefill, then those waiting.
func (h *Host) Each(engine int, f func(id uint64, generated int)) {
	e := h.engines[engine]
	for i := range e.running {
		q := &e.running[i]
		f(q.id, q.generated+int(e.decodes-q.joined))
	}
	for i := range e.step.joining {
		f(e.step.joining[i].id, e.step.joining[i].generated)
	}
	if e.step.hasPart {
		f(e.step.partial.id, e.step.partial.generated)
	}
	for i := range e.waiting.size {
		f(e.waiting.at(i).id, e.waiting.at(i).generated)
	}
}

func (h *Host) begin(i int, now time.Duration) {
	var neighbours float64
	for j, e := range h.engines {
		if j != i && e.step.busy {
			neighbours += e.step.duty()
		}
	}
	e := h.engines[i]
	ms, ok := e.begin(neighbours, now)
	if !ok {
		return
	}
	if e.step.gathering {
		h.ends[i] = e.step.until
		return
	}
	h.ends[i] = now + profile.Duration(ms*h.slowness.at(now)) + e.delay
	e.delay = 0
	if h.Observe != nil {
		s := Step{Engine: i, Start: now, End: h.ends[i], Joining: len(e.step.joining), Tokens: e.step.tokens}
		if e.step.decoding {
			s.Decoding = len(e.running)
		}
		h.Observe(s)
	}
}

// findNext breaks ties by engine index, so that runs repeat exactly.
func (h *Host) findNext() {
	h.next = -1
	for i, e := range h.engines {
		if e.step.busy && (h.next < 0 || h.ends[i] < h.ends[h.next]) {
			h.next = i
		}
	}
}
