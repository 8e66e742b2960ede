package engine

import "fmt"

// CheckInvariants recounts what the engine keeps incrementally: KV blocks never
// exceed capacity, and context, tokens held, block boundaries and sequence counts agree with
// the running sequences. Tests run it after every step.
func (e *Engine) CheckInvariants() error {
	if e.batching != nil {
		return e.checkBatching()
	}
	held, context, tokens := 0, 0, 0
	boundary := make([]int, len(e.boundary))
	for i := range e.running {
		q := e.running[i]
		boundary[e.boundaryOf(&q)]++
		length := q.prompt + q.generated + int(e.decodes-q.joined)
		context += length
		tokens += length
		cached := length - 1
		if e.step.busy && e.step.decoding {
			cached++ // the step in progress has its block already
		}
		held += e.blocksFor(cached)
		if q.finish <= e.decodes {
			return fmt.Errorf("sequence %d should have ended at decode %d, now %d", q.id, q.finish, e.decodes)
		}
	}
	for i := range e.step.joining {
		held += e.blocksFor(e.step.joining[i].prefillTokens())
		tokens += e.step.joining[i].prefillTokens()
	}
	sequences := len(e.running) + len(e.step.joining)
	if e.step.hasPart {
		sequences++
		held += e.blocksFor(e.step.partial.prefillTokens())
		tokens += e.step.partial.prefillTokens()
	}
	for i := range e.waiting.size {
		tokens += e.waiting.at(i).prefillTokens()
	}
	switch {
	case e.free < 0 || held+e.free != e.blocks:
		return fmt.Errorf("KV blocks: %d held + %d free ≠ %d", held, e.free, e.blocks)
	case context != e.context:
		return fmt.Errorf("context: %d counted, %d kept", context, e.context)
	case tokens != e.held:
		return fmt.Errorf("tokens held: %d counted, %d kept", tokens, e.held)
	case sequences > e.config.MaxSequences:
		return fmt.Errorf("%d sequences run, at most %d may", sequences, e.config.MaxSequences)
	case !e.step.busy && e.Load() > 0:
		return fmt.Errorf("idle with %d sequences", e.Load())
	}
	for k := range boundary {
		if boundary[k] != e.boundary[k] {
			return fmt.Errorf("block boundary %d: %d counted, %d kept", k, boundary[k], e.boundary[k])
		}
	}
	return nil
}

// checkBatching is CheckInvariants where batches run to their end.
func (e *Engine) checkBatching() error {
	tokens, s := 0, &e.step
	for i := range s.joining {
		tokens += s.joining[i].prompt
		if s.joining[i].kind() != s.joining[0].kind() {
			return fmt.Errorf("a batch of kinds %d and %d", s.joining[0].kind(), s.joining[i].kind())
		}
	}
	for i := range e.waiting.size {
		tokens += e.waiting.at(i).prompt
	}
	switch {
	case tokens != e.held:
		return fmt.Errorf("tokens held: %d counted, %d kept", tokens, e.held)
	case len(s.joining) > 0 && len(s.joining) > e.batching.limit(s.joining[0].kind()):
		return fmt.Errorf("%d sequences run, at most %d may", len(s.joining), e.batching.limit(s.joining[0].kind()))
	case s.busy == s.gathering && len(s.joining) > 0 || s.busy && !s.gathering && len(s.joining) == 0:
		return fmt.Errorf("busy %t, gathering %t, with a batch of %d", s.busy, s.gathering, len(s.joining))
	case !s.busy && e.Load() > 0:
		return fmt.Errorf("idle with %d sequences", e.Load())
	case s.gathering && e.waiting.size == 0:
		return fmt.Errorf("gathers for nobody")
	}
	return nil
}
