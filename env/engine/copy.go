package engine

import (
	"math"
	"slices"
)

// CopyFrom makes h an independent copy of o, reusing h's memory; profiles are
// shared, as they are read-only. Observe stays h's own. The zero Host may be
// copied into.
func (h *Host) CopyFrom(o *Host) {
	for len(h.engines) < len(o.engines) {
		h.engines = append(h.engines, new(Engine))
	}
	h.engines = h.engines[:len(o.engines)]
	for i := range o.engines {
		h.engines[i].copyFrom(o.engines[i])
	}
	h.ends = append(h.ends[:0], o.ends...)
	h.next, h.slowness = o.next, o.slowness
}

func (e *Engine) copyFrom(o *Engine) {
	into := *e
	*e = *o
	e.waiting = into.waiting
	e.waiting.copyFrom(&o.waiting)
	e.running = append(into.running[:0], o.running...)
	e.boundary = append(into.boundary[:0], o.boundary...)
	e.step.joining = append(into.step.joining[:0], o.step.joining...)
	e.cancelled = append(into.cancelled[:0], o.cancelled...)
}

func (q *deque) copyFrom(o *deque) {
	q.head, q.size = 0, 0
	for i := range o.size {
		q.pushBack(*o.at(i))
	}
}

// Redraw gives each of the engine's sequences another output length: what length
// returns for its ID, the tokens that it has generated, and the most that the KV
// cache can hold of it. It must be above the former and at most the latter.
// Sequences are visited in the order of [Host.Each].
func (h *Host) Redraw(engine int, length func(id uint64, generated, most int) int) {
	e := h.engines[engine]
	redraw := func(q *sequence, generated int) {
		most := e.blocks*e.config.BlockTokens - q.prompt
		if e.batching != nil {
			most = math.MaxInt32 // there is no cache
		}
		q.output = length(q.id, generated, most)
	}
	for i := range e.running {
		q := &e.running[i]
		redraw(q, q.generated+int(e.decodes-q.joined))
		q.finish = q.joined + uint64(q.output-q.generated)
	}
	slices.SortFunc(e.running, byFinish) // a sorted list is a heap
	for i := range e.step.joining {
		redraw(&e.step.joining[i], e.step.joining[i].generated)
	}
	if e.step.hasPart {
		redraw(&e.step.partial, e.step.partial.generated)
	}
	for i := range e.waiting.size {
		redraw(e.waiting.at(i), e.waiting.at(i).generated)
	}
}

func byFinish(a, b sequence) int {
	if a.before(&b) {
		return -1
	}
	return 1
}
