// Package classifier answers requests to classify text, an image and a piece of
// sound, any of which can be left out, in batches. What computes comes in as a
// [Model].
package classifier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"gearshift/serving/backend"
	"gearshift/serving/backend/tokenizer"
)

// ErrClosed ends the requests of an engine that is closed.
var ErrClosed = errors.New("the engine is closed")

// Input is what is to be classified. A part that is nil is left out.
type Input struct {
	Tokens []int64
	Image  []float32 // colours × rows × columns, from −1 to 1
	Audio  []float32 // samples from −1 to 1
}

// Layout is the shape of a model. What is 0 is of a modality that the model lacks.
type Layout struct {
	Labels, Vocabulary      int
	ImageSide, AudioSamples int
}

// takes are the modalities of the model, by the names that answers have for them.
func (l Layout) takes() (names []string) {
	for i, size := range [modalities]int{l.Vocabulary, l.ImageSide, l.AudioSamples} {
		if size > 0 {
			names = append(names, modalityNames[i])
		}
	}
	return names
}

// modalityNames are in the order of the mask.
var modalityNames = [modalities]string{"text", "image", "audio"}

// Model computes. One goroutine uses it.
type Model interface {
	Layout() Layout
	// Classify returns the logits of each input, row by row.
	Classify([]Input) ([]float32, error)
	Close()
}

// Config of an engine.
type Config struct {
	Name    string
	Labels  []string
	Context int // tokens of text
	// SamplingRate of the sound that the model takes, per second.
	SamplingRate int
	// MaxBatch bounds how many are computed together; the rest wait, first come
	// first served.
	MaxBatch int
	// AtLeast returns the least time that a batch of so many takes; nil adds none. It makes an engine as slow as an
	// accelerator whose times are known.
	AtLeast func(n int) time.Duration
	// Observe, if set, is called with each answer as it ends. It must neither wait
	// nor call the engine.
	Observe func(backend.Span)
}

// Engine classifies with one model. It implements [http.RoundTripper].
type Engine struct {
	config    Config
	model     Model
	tokenizer *tokenizer.Tokenizer
	ended     sync.WaitGroup

	mu      sync.Mutex // protects all below, and the jobs
	change  *sync.Cond
	waiting []*job
	running int
	lastID  uint64 // begins at random, so that the ids of several engines' answers are different
	closed  bool
}

// job is one request on its way.
type job struct {
	Input
	id    uint64
	began time.Time
	gone  bool // its client is
	done  chan struct{}

	logits []float32
	err    error
}

// New starts an engine; Close ends it, and closes the model. The tokenizer is nil if the
// model takes no text.
func New(m Model, t *tokenizer.Tokenizer, c Config) (*Engine, error) {
	l := m.Layout()
	switch {
	case len(l.takes()) == 0:
		return nil, errors.New("the model has no modality")
	case l.Vocabulary > 0 && t == nil:
		return nil, errors.New("the model takes text, and there is no tokenizer: its configuration has no vocab_size")
	case t != nil && t.Size() != l.Vocabulary:
		return nil, fmt.Errorf("the tokenizer does not match the model: it has %d tokens, the model %d", t.Size(), l.Vocabulary)
	case len(c.Labels) != l.Labels:
		return nil, fmt.Errorf("there are %d labels, and the model distinguishes %d", len(c.Labels), l.Labels)
	case c.MaxBatch < 1:
		return nil, fmt.Errorf("at least 1 must be computed at once, not %d", c.MaxBatch)
	case l.AudioSamples > 0 && c.SamplingRate < 1:
		return nil, fmt.Errorf("a sampling rate of %d is none", c.SamplingRate)
	}
	e := &Engine{config: c, model: m, tokenizer: t, lastID: rand.Uint64() >> 17}
	e.change = sync.NewCond(&e.mu)
	e.ended.Go(e.run)
	return e, nil
}

// Model is the name that answers carry.
func (e *Engine) Model() string { return e.config.Name }

// Context is how many tokens a text may have.
func (e *Engine) Context() int { return e.config.Context }

// Load is the engine's present load.
func (e *Engine) Load() backend.Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	return backend.Load{Running: e.running, Waiting: len(e.waiting)}
}

// Close ends all requests with [ErrClosed] and frees the model.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	for _, j := range e.waiting {
		e.end(j, nil, ErrClosed)
	}
	e.waiting = nil
	e.change.Broadcast()
	e.mu.Unlock()
	e.ended.Wait()
}

// run is the engine's loop: each turn computes what waits, as far as a batch
// holds it.
func (e *Engine) run() {
	defer e.model.Close()
	for {
		batch := e.take()
		if batch == nil {
			return
		}
		inputs := make([]Input, len(batch))
		for i, j := range batch {
			inputs[i] = j.Input
		}
		began := time.Now()
		logits, err := e.model.Classify(inputs)
		if err != nil {
			err = fmt.Errorf("the model %s fails: %w", e.config.Name, err)
		}
		if e.config.AtLeast != nil {
			time.Sleep(time.Until(began.Add(e.config.AtLeast(len(batch)))))
		}
		e.mu.Lock()
		e.running = 0
		for i, j := range batch {
			var row []float32
			if size := len(logits) / len(batch); err == nil {
				row = append(row, logits[i*size:(i+1)*size]...)
			}
			e.end(j, row, err)
		}
		e.mu.Unlock()
	}
}

// take waits for work and takes a batch of it, nil if the engine is closed.
func (e *Engine) take() (batch []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		for len(e.waiting) > 0 && len(batch) < e.config.MaxBatch {
			if j := e.waiting[0]; !j.gone {
				batch = append(batch, j)
			}
			e.waiting = e.waiting[1:]
		}
		if e.running = len(batch); e.closed || len(batch) > 0 {
			return batch
		}
		e.change.Wait()
	}
}

// end gives the job its answer. The caller holds e.mu.
func (e *Engine) end(j *job, logits []float32, err error) {
	j.logits, j.err = logits, err
	close(j.done)
	if e.config.Observe != nil {
		total := time.Since(j.began)
		e.config.Observe(backend.Span{PromptTokens: len(j.Tokens), First: total, Total: total, Err: err})
	}
}

// classifyAll has the inputs computed, together as far as a batch holds them, and returns
// their jobs in order.
func (e *Engine) classifyAll(r *http.Request, inputs []Input) ([]*job, error) {
	jobs := make([]*job, len(inputs))
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, ErrClosed
	}
	for i, in := range inputs {
		e.lastID++
		jobs[i] = &job{Input: in, id: e.lastID, began: time.Now(), done: make(chan struct{})}
	}
	e.waiting = append(e.waiting, jobs...)
	e.change.Signal()
	e.mu.Unlock()
	for _, j := range jobs {
		select {
		case <-j.done:
			if j.err != nil {
				e.abandon(jobs)
				return nil, j.err
			}
		case <-r.Context().Done():
			e.abandon(jobs)
			return nil, r.Context().Err()
		}
	}
	return jobs, nil
}

// abandon has those that still wait computed no more.
func (e *Engine) abandon(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range jobs {
		j.gone = true
	}
}
