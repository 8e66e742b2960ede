package engine

// watermarkShare of the blocks stays free when a sequence is admitted next to
// others, so that it is not preempted at once; vLLM's default.
const watermarkShare = 0.01

// planPrefillFirst fills a step with waiting prompts, first come first served;
// if none can start, every running sequence decodes.
func (e *Engine) planPrefillFirst() {
	budget := e.config.MaxBatchTokens
	for e.waiting.size > 0 {
		tokens := e.waiting.at(0).prefillTokens()
		// A prompt above the whole budget runs in a step of its own.
		if tokens > budget && len(e.step.joining) > 0 || !e.admits(tokens) {
			break
		}
		e.step.joining = append(e.step.joining, e.admit())
		e.step.tokens += tokens
		if budget -= tokens; budget <= 0 || len(e.step.joining) == e.config.MaxPrompts {
			break
		}
	}
	if len(e.step.joining) == 0 {
		e.planDecode()
	}
}

// planChunked decodes every running sequence, then spends what is left of the
// token budget on prompts in order; only the last of them may be partial.
func (e *Engine) planChunked() {
	e.planDecode()
	s := &e.step
	budget := e.config.MaxBatchTokens - s.tokens
	if s.hasPart && budget > 0 {
		budget -= e.prefill(s.partial, budget)
	}
	for budget > 0 && !s.hasPart && e.waiting.size > 0 && e.admits(e.waiting.at(0).prefillTokens()) {
		s.prefilled = 0
		budget -= e.prefill(e.admit(), budget)
	}
}

// prefill spends up to budget tokens on q, of which prefilled are done: it
// joins if that completes it and is the partial one if not.
func (e *Engine) prefill(q sequence, budget int) (spent int) {
	s := &e.step
	left := q.prefillTokens() - s.prefilled
	spent = min(left, budget)
	s.tokens += spent
	s.hasPart = spent < left
	if s.hasPart {
		s.partial = q
		s.prefilled += spent
	} else {
		s.joining = append(s.joining, q)
	}
	return spent
}

// planDecode lets all running sequences take part, preempting the newest while
// the blocks that the step needs are not free.
func (e *Engine) planDecode() {
	for e.boundary[e.residue] > e.free {
		e.preempt()
	}
	if len(e.running) == 0 {
		return
	}
	e.free -= e.boundary[e.residue]
	e.step.decoding = true
	e.step.tokens += len(e.running)
}

// preempt sends the newest sequence back to the head of the waiting line. Its
// cache is dropped: prompt and generated tokens will be prefilled again.
func (e *Engine) preempt() {
	e.preemptions++
	s := &e.step
	if s.hasPart {
		s.hasPart = false
		e.free += e.blocksFor(s.partial.prefillTokens())
		e.waiting.pushFront(s.partial)
		return
	}
	e.waiting.pushFront(e.leave(e.running.newest()))
}

// admits says whether a prefill of so many tokens may start now.
func (e *Engine) admits(tokens int) bool {
	running := len(e.running) + len(e.step.joining)
	if running >= e.config.MaxSequences {
		return false
	}
	left := e.free - e.blocksFor(tokens)
	if running == 0 {
		return left >= 0
	}
	return left >= int(watermarkShare*float64(e.blocks))
}

// admit takes the head of the waiting line and gives it its blocks.
func (e *Engine) admit() sequence {
	q := e.waiting.popFront()
	e.admitted++
	q.order = e.admitted
	e.free -= e.blocksFor(q.prefillTokens())
	return q
}

// prefillTokens is what a prefill computes: the prompt, and after a preemption
// the tokens generated before it.
func (q *sequence) prefillTokens() int { return q.prompt + q.generated }
