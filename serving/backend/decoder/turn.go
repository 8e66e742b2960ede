package decoder

import (
	"errors"
	"fmt"
)

// errNoNumbers is of a damaged model, or of a prompt that overflows in it.
var errNoNumbers = errors.New("none of its logits is a number")

// turn lets ended sequences go, prefills those that may begin, and adds a token
// to each that runs. Sequences that wait come first, as in vLLM's default
// order: a new one has its first token before the others go on.
func (e *Engine) turn() error {
	stay, gone := e.sweep()
	var join []Row
	// No more than the batch holds: answers of one token leave at once, and a queue of
	// them would keep those that run waiting for good.
	for range e.config.MaxSequences {
		s := e.admit()
		if s == nil {
			break
		}
		if row := e.begin(s); row != nil {
			join = append(join, row)
		}
	}
	if gone || len(join) > 0 {
		if err := e.model.Compose(stay, join); err != nil {
			return err
		}
	}
	return e.decode()
}

// sweep takes ended sequences off the batch, and returns the rows that stay. The
// last replaces one that goes, so that few rows move.
func (e *Engine) sweep() (stay []int, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := len(e.running)
	for i := range before {
		stay = append(stay, i)
	}
	for i := 0; i < len(stay); i++ {
		for i < len(stay) && e.running[i].done {
			last := len(stay) - 1
			e.running[i], stay[i] = e.running[last], stay[last]
			stay = stay[:last]
		}
	}
	clear(e.running[len(stay):])
	e.running = e.running[:len(stay)]
	return stay, len(stay) < before
}

// admit takes the first that waits off the queue, if it may begin now.
func (e *Engine) admit() *sequence {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.waiting) == 0 || len(e.running) == e.config.MaxSequences {
		return nil
	}
	s := e.waiting[0]
	longest := s.reserved()
	for _, r := range e.running {
		longest = max(longest, r.reserved())
	}
	if longest*(len(e.running)+1) > e.config.KVTokens {
		return nil
	}
	e.waiting[0] = nil
	e.waiting = e.waiting[1:]
	e.running = append(e.running, s)
	return s
}

// begin prefills the sequence, which is the last that runs, and gives it its
// first token. No row comes of one that has ended by then, or that the model fails
// on: it is alone in that, since the batch is as it was.
func (e *Engine) begin(s *sequence) Row {
	row, logits, err := e.model.Prefill(s.prompt)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.end(s, "", e.failure(err))
	} else if e.extend(s, logits); s.done {
		row.Release()
	}
	if s.done {
		e.running = e.running[:len(e.running)-1]
		return nil
	}
	return row
}

// decode adds a token to each sequence that runs.
func (e *Engine) decode() error {
	e.mu.Lock()
	e.last = e.last[:0]
	for _, s := range e.running {
		e.last = append(e.last, s.last)
	}
	e.mu.Unlock()
	if len(e.last) == 0 {
		return nil
	}
	logits, err := e.model.Decode(e.last)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	size := len(logits) / len(e.last)
	for i, s := range e.running[:len(e.last)] {
		e.extend(s, logits[i*size:(i+1)*size])
	}
	return nil
}

// extend draws the sequence's next token, unless it has ended. The caller holds
// e.mu.
func (e *Engine) extend(s *sequence, logits []float32) {
	if s.done {
		return
	}
	e.tokens++
	token := s.draw(logits)
	if token < 0 {
		e.end(s, "", e.failure(errNoNumbers))
		return
	}
	if finish := s.add(token, e.tokenizer, e.config.End); finish != "" {
		e.end(s, finish, nil)
		return
	}
	s.signal()
}

func (e *Engine) failure(err error) error {
	return fmt.Errorf("the model %s fails: %w", e.config.Name, err)
}
