package engine

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
