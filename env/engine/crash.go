package engine

import "time"

// Break drops at once what an engine has, or what all have if engine is −1, as when the
// machine is lost: the steps in progress never end, and the engine is empty and idle again,
// ready for new sequences. It calls f, in an order that repeats, for each sequence that was
// waiting or running.
func (h *Host) Break(engine int, _ time.Duration, f func(id uint64)) {
	for i, e := range h.engines {
		if engine < 0 || i == engine {
			h.Each(i, func(id uint64, _ int) { f(id) })
			e.reset()
		}
	}
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
