package engine

// Crash drops everything on the host at once, as when the machine is lost: the
// steps in progress never end, and its engines are empty and idle again, ready
// for new sequences. It calls f, in an order that repeats, for each sequence
// that was waiting or running.
func (h *Host) Crash(f func(id uint64)) {
	for i, e := range h.engines {
		h.Each(i, func(id uint64, _ int) { f(id) })
		e.reset()
	}
	h.next = -1
}

// Stop is Crash for one engine, while the others of the host go on.
func (h *Host) Stop(engine int, f func(id uint64)) {
	h.Each(engine, func(id uint64, _ int) { f(id) })
	h.engines[engine].reset()
	h.findNext()
}

// reset empties the engine. Its counts of decode steps, admissions, tokens and
// preemptions go on.
func (e *Engine) reset() {
	e.waiting.size = 0
	e.running = e.running[:0]
	clear(e.boundary)
	e.free, e.held, e.context = e.blocks, 0, 0
	e.step = step{joining: e.step.joining[:0]}
	e.cancelled = e.cancelled[:0]
}
