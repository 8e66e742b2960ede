package decoder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gearshift/serving/backend"
	"gearshift/serving/backend/tokenizer"
)

// ErrClosed ends all answers of an engine that is closed.
var ErrClosed = errors.New("the engine is closed")

// Config of an engine.
type Config struct {
	// Name of the model, which answers carry.
	Name string
	// Context is how many tokens a sequence may have, prompt and answer
	// together.
	Context int
	// End are the tokens that end an answer.
	End []int64
	// MaxSequences bounds the running batch. The rest wait, first come first
	// served.
	MaxSequences int
	// KVTokens bounds the cache of the running batch, in tokens: rows × the
	// tokens of the longest, since its tensors are padded. A sequence counts
	// with all that it may come to, so none that has begun runs out of room.
	KVTokens int
	// Seed of the draws of requests that name none.
	Seed uint64
	// Observe, if set, is called with each answer as it ends, from the engine's
	// goroutines. It must neither wait nor call the engine.
	Observe func(backend.Span)
}

// Engine generates with one model. It implements [backend.Generator].
type Engine struct {
	config    Config
	model     Model
	tokenizer *tokenizer.Tokenizer
	ended     sync.WaitGroup

	mu      sync.Mutex // protects all below, and the sequences' progress
	change  *sync.Cond // there is something to do
	random  *rand.Rand
	lastID  uint64 // begins at random, so that the ids of several engines' answers are different
	waiting []*sequence
	running []*sequence // in the order of the model's rows
	tokens  uint64      // generated so far
	closed  bool
	broken  error // why the model computes no longer

	last []int64 // the loop's own: the last token of each row
}

// New starts an engine; Close ends it, and closes the model.
func New(m Model, t *tokenizer.Tokenizer, c Config) (*Engine, error) {
	layout := m.Layout()
	if layout.Context > 0 {
		c.Context = min(c.Context, layout.Context)
	}
	if err := match(t.Size(), layout.Vocabulary); err != nil {
		return nil, err
	}
	switch {
	case c.Context < 2:
		return nil, fmt.Errorf("a context of %d tokens is too short", c.Context)
	case c.MaxSequences < 1:
		return nil, fmt.Errorf("at least 1 sequence must run, not %d", c.MaxSequences)
	case c.KVTokens < 2:
		return nil, fmt.Errorf("the KV cache must hold at least 2 tokens, not %d", c.KVTokens)
	}
	if err := m.Bound(c.MaxSequences, c.KVTokens); err != nil {
		return nil, err
	}
	e := &Engine{config: c, model: m, tokenizer: t, lastID: rand.Uint64() >> 17, random: rand.New(rand.NewPCG(c.Seed, 0x6465636f646572))}
	e.change = sync.NewCond(&e.mu)
	e.ended.Go(e.run)
	return e, nil
}

// Model implements [backend.Generator].
func (e *Engine) Model() string { return e.config.Name }

// Context is how many tokens prompt and answer may have together.
func (e *Engine) Context() int { return e.config.Context }

// Close ends all answers with [ErrClosed] and frees the model.
func (e *Engine) Close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		e.endAll(ErrClosed)
		e.change.Broadcast()
	}
	e.mu.Unlock()
	e.ended.Wait()
}

// endAll ends every answer. The caller holds e.mu.
func (e *Engine) endAll(err error) {
	for _, s := range slices.Concat(e.waiting, e.running) {
		e.end(s, "", err)
	}
	e.waiting = nil
}

// submit puts the sequence in the queue.
func (e *Engine) submit(s *sequence) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return ErrClosed
	case e.broken != nil:
		return e.broken
	}
	e.lastID++
	s.id, s.began = e.lastID, time.Now()
	if s.random == nil {
		s.random = rand.New(rand.NewPCG(e.random.Uint64(), e.random.Uint64()))
	}
	e.waiting = append(e.waiting, s)
	e.change.Signal()
	return nil
}

// run is the engine's loop: each turn takes sequences in and adds a token to
// each that runs.
func (e *Engine) run() {
	defer e.model.Close()
	for {
		e.mu.Lock()
		for !e.closed && len(e.waiting) == 0 && len(e.running) == 0 {
			e.change.Wait()
		}
		closed := e.closed
		e.mu.Unlock()
		if closed {
			return
		}
		if err := e.turn(); err != nil {
			e.mu.Lock()
			e.broken = e.failure(err)
			e.endAll(e.broken)
			e.running = nil
			e.mu.Unlock()
		}
	}
}
