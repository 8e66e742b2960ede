package engine

import (
	"fmt"
	"time"

	"gearshift/router/profile"
)

// Engine is one replica's engine, which batches continuously, or where the profile
// has Batches runs each batch to its end. A [Host] drives it: it
// plans a step, lets its time pass, then applies it.
//
// A decode step advances every running sequence by one token, so nothing is
// kept per sequence and step: a sequence's end, its length and its next KV
// block follow from the engine's decode count, and the work of a step does not
// grow with the batch.
type Engine struct {
	config  Config
	profile *profile.Profile
	// batching, if set, has it run batches to their end; the profile is then nil, and there
	// are no blocks. A batch is one step of joining sequences.
	batching *batching
	blocks   int // KV blocks in all
	free     int

	waiting deque
	running finishHeap
	// boundary[k] counts the running sequences that need a new block for the
	// decode step that starts at a decode count ≡ k modulo the block size.
	boundary []int
	held     int    // Σ prompt and generated tokens, of waiting sequences too
	context  int    // Σ tokens that the next decode step attends to
	decodes  uint64 // decode steps done
	residue  int    // decodes modulo the block size
	admitted uint64 // admissions so far, which order the sequences

	step      step
	delay     time.Duration // of its next step
	cancelled []uint64      // to leave at the end of the step in progress

	preemptions, produced uint64
}

// step is the iteration in progress.
type step struct {
	busy bool
	// gathering means that a batch waits for more sequences until then.
	gathering bool
	until     time.Duration
	decoding  bool       // the running sequences take part
	tokens    int        // new tokens
	joining   []sequence // their prefill completes in this step
	// partial is the sequence, if any, whose prefill goes on in a later step,
	// with the first prefilled tokens done (chunked prefill only).
	partial   sequence
	prefilled int
	hasPart   bool

	ms, gpu float64 // its time, and the GPU part of it
	load    float64 // their quotient, or −1: see duty
}

// duty is the share of the step that loads the GPU, worked out when a neighbour
// first asks.
func (s *step) duty() float64 {
	if s.load < 0 {
		s.load = 0
		if s.ms > 0 {
			s.load = s.gpu / s.ms
		}
	}
	return s.load
}

// New makes an idle engine with a KV cache of kvTokens, rounded down to blocks. Of a
// profile with Batches it is one of [NewBatching], without a cache.
func New(c Config, p *profile.Profile, kvTokens int) (*Engine, error) {
	if p.Batches != nil {
		return NewBatching(c, p)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cannot make engine: %w", err)
	}
	blocks := kvTokens / c.BlockTokens
	if blocks < 1 {
		return nil, fmt.Errorf("cannot make engine: a KV cache of %d tokens is less than one block of %d", kvTokens, c.BlockTokens)
	}
	return &Engine{
		config: c, profile: p,
		blocks: blocks, free: blocks,
		boundary: make([]int, c.BlockTokens),
	}, nil
}

// Fits says whether the sequence could run to its end with the whole cache to
// itself. One that does not fit would wait for ever.
func (e *Engine) Fits(s Sequence) bool {
	if e.batching != nil {
		return s.PromptTokens >= 0 && s.OutputTokens >= 0
	}
	return s.PromptTokens >= 1 && s.OutputTokens >= 1 && e.blocksFor(s.PromptTokens+s.OutputTokens) <= e.blocks
}

// Batches reports whether the engine runs batches to their end.
func (e *Engine) Batches() bool { return e.batching != nil }

// Load is the number of sequences waiting and running.
func (e *Engine) Load() int {
	n := e.waiting.size + len(e.running) + len(e.step.joining)
	if e.step.hasPart {
		n++
	}
	return n
}

// Waiting is the number of sequences not yet admitted to the batch.
func (e *Engine) Waiting() int { return e.waiting.size }

// CacheUsage is the share of the KV cache's blocks that sequences hold, 0 to 1.
func (e *Engine) CacheUsage() float64 {
	if e.blocks == 0 {
		return 0
	}
	return float64(e.blocks-e.free) / float64(e.blocks)
}

// Preemptions counts the sequences sent back to be recomputed.
func (e *Engine) Preemptions() uint64 { return e.preemptions }

// Produced counts the tokens generated.
func (e *Engine) Produced() uint64 { return e.produced }

// Held is the number of tokens of all its sequences: their prompts and what
// they have generated, whether their KV is in the cache or still to come.
func (e *Engine) Held() int { return e.held }

func (e *Engine) blocksFor(tokens int) int {
	return (tokens + e.config.BlockTokens - 1) / e.config.BlockTokens
}

func (e *Engine) submit(s Sequence, now time.Duration) {
	e.held += s.PromptTokens
	if e.batching != nil {
		e.waiting.pushBack(batched(s, now))
		return
	}
	e.waiting.pushBack(sequence{id: s.ID, prompt: s.PromptTokens, output: s.OutputTokens})
}

// begin plans the next step and returns its time in milliseconds, or false if
// there is nothing to do.
func (e *Engine) begin(neighbours float64, now time.Duration) (ms float64, ok bool) {
	if e.batching != nil {
		return e.beginBatch(neighbours, now)
	}
	s := &e.step
	s.decoding, s.tokens = false, 0
	if e.config.Scheduler == ChunkedPrefill {
		e.planChunked()
	} else {
		e.planPrefillFirst()
	}
	sequences, context := len(s.joining), 0
	if s.hasPart {
		sequences++
	}
	if s.decoding {
		sequences += len(e.running)
		context = e.context
	}
	if sequences == 0 {
		return 0, false
	}
	s.busy = true
	s.ms, s.gpu = e.profile.Time(s.tokens, sequences, context, neighbours)
	s.ms += float64(len(s.joining)) * e.profile.Prompt
	s.load = -1
	return s.ms, true
}

// finish applies the step in progress and appends what it brought about, each
// event a copy of like with its ID and Kind set.
func (e *Engine) finish(dst []Event, like Event) []Event {
	if e.batching != nil {
		return e.finishBatch(dst, like)
	}
	s := &e.step
	s.busy, s.load = false, 0
	if s.decoding {
		e.decodes++
		if e.residue++; e.residue == len(e.boundary) {
			e.residue = 0
		}
		e.context += len(e.running)
		e.held += len(e.running)
		e.produced += uint64(len(e.running))
	}
	e.dropCancelled()
	for len(e.running) > 0 && e.running[0].finish == e.decodes {
		q := e.leave(0)
		e.held -= q.prompt + q.generated
		like.ID, like.Kind = q.id, Finished
		dst = append(dst, like)
	}
	for _, q := range s.joining {
		dst = e.join(q, dst, like)
	}
	s.joining = s.joining[:0]
	return dst
}

// join lets a sequence whose prefill is done decode from now on. The prefill
// yields a token: the first, or the next after a preemption.
func (e *Engine) join(q sequence, dst []Event, like Event) []Event {
	q.generated++
	e.produced++
	e.held++
	like.ID = q.id
	if q.generated == 1 {
		like.Kind = FirstToken
		dst = append(dst, like)
	}
	if q.generated == q.output {
		e.free += e.blocksFor(q.prompt + q.generated - 1)
		e.held -= q.prompt + q.generated
		like.Kind = Finished
		return append(dst, like)
	}
	q.joined = e.decodes
	q.finish = e.decodes + uint64(q.output-q.generated)
	e.context += q.prompt + q.generated
	e.boundary[e.boundaryOf(&q)]++
	e.running.push(q)
	return dst
}

// boundaryOf is the residue of the decode counts at which a running sequence
// needs a new block: those where its cached tokens fill whole blocks.
func (e *Engine) boundaryOf(q *sequence) int {
	size := uint64(e.config.BlockTokens)
	cached := uint64(q.prompt+q.generated-1) % size
	return int((q.joined + size - cached) % size)
}

// leave takes the running sequence at heap index i out and frees its blocks.
// Its generated count is brought up to date.
func (e *Engine) leave(i int) sequence {
	q := e.running.remove(i)
	e.boundary[e.boundaryOf(&q)]--
	q.generated += int(e.decodes - q.joined)
	e.context -= q.prompt + q.generated
	e.free += e.blocksFor(q.prompt + q.generated - 1)
	return q
}

// cancel removes the sequence now if it waits, else at the end of the step in
// progress.
func (e *Engine) cancel(id uint64) bool {
	if q, ok := e.waiting.remove(id); ok {
		e.held -= q.prompt + q.generated
		return true
	}
	s := &e.step
	known := e.running.index(id) >= 0 || indexOf(s.joining, id) >= 0 || s.hasPart && s.partial.id == id
	if known {
		e.cancelled = append(e.cancelled, id)
	}
	return known
}

func (e *Engine) dropCancelled() {
	s := &e.step
	for _, id := range e.cancelled {
		if i := e.running.index(id); i >= 0 {
			q := e.leave(i)
			e.held -= q.prompt + q.generated
		} else if i := indexOf(s.joining, id); i >= 0 {
			e.free += e.blocksFor(s.joining[i].prefillTokens())
			e.held -= s.joining[i].prefillTokens()
			s.joining = append(s.joining[:i], s.joining[i+1:]...)
		} else if s.hasPart && s.partial.id == id {
			e.free += e.blocksFor(s.partial.prefillTokens())
			e.held -= s.partial.prefillTokens()
			s.hasPart = false
		}
	}
	e.cancelled = e.cancelled[:0]
}

func indexOf(list []sequence, id uint64) int {
	for i := range list {
		if list[i].id == id {
			return i
		}
	}
	return -1
}
