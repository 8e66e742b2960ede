package engine

import (
	"math"
	"slices"
	"time"

	"gearshift/router/profile"
)

// batching is how an engine runs batches, each to its end.
//
// A batch is of one kind of input: that of the sequence that has waited longest, with
// those of the same kind behind it, in order, up to the most that may be. Its time
// follows from the cost model, and all its sequences end with it: their answers are in
// one piece. What comes meanwhile waits for the next.
type batching struct {
	cost   profile.Batching
	most   int           // sequences in a batch, whatever the cost model has
	window time.Duration // see Config.BatchWindowMS
}

// NewBatching makes an idle engine that runs batches of at most MaxSequences, each to
// its end. Of the configuration it keeps to nothing else but the window.
func NewBatching(c Config, cost profile.Batching) (*Engine, error) {
	if err := c.validateBatching(); err != nil {
		return nil, err
	}
	return &Engine{config: c, batching: &batching{cost, c.MaxSequences, c.window()}}, nil
}

// limit is the largest batch of a kind.
func (b *batching) limit(kind int) int { return min(b.most, b.cost.Most(kind)) }

// beginBatch takes a batch from those that wait and returns its time in milliseconds, or
// false if there is nothing to do. Where it waits for more of them, the step is
// gathering instead, until then. If its first is cancelled meanwhile, what is left looks
// again at the same time, or when another comes.
func (e *Engine) beginBatch(neighbours float64, now time.Duration) (ms float64, ok bool) {
	s := &e.step
	if s.gathering = false; e.waiting.size == 0 {
		s.busy = false
		return 0, false
	}
	s.busy = true
	if until := e.gatherUntil(); until > now {
		s.gathering, s.until, s.load = true, until, 0
		return 0, true
	}
	kind := e.waiting.at(0).kind()
	e.takeBatch(kind, e.batching.limit(kind))
	s.tokens = 0
	for i := range s.joining {
		s.tokens += s.joining[i].output
	}
	s.ms, s.gpu = e.batching.cost.Batch(kind, len(s.joining), neighbours)
	s.load = -1
	return s.ms, true
}

// gatherUntil is when a batch of those that wait begins at the latest. One that is full
// begins at once.
func (e *Engine) gatherUntil() time.Duration {
	window := e.batching.window
	if window == 0 {
		return math.MinInt64
	}
	head := e.waiting.at(0)
	left := e.batching.limit(head.kind())
	for i := 0; i < e.waiting.size && left > 0; i++ {
		if e.waiting.at(i).kind() == head.kind() {
			left--
		}
	}
	if left == 0 {
		return math.MinInt64
	}
	return head.came() + window
}

// takeBatch moves up to so many sequences of a kind from those that wait into the step.
// The others keep their order.
func (e *Engine) takeBatch(kind, most int) {
	q, s := &e.waiting, &e.step
	seen := 0
	for ; seen < q.size && len(s.joining) < most; seen++ {
		if w := q.at(seen); w.kind() == kind {
			e.admitted++
			w.order = e.admitted
			s.joining = append(s.joining, *w)
		}
	}
	// Those of other kinds among the ones seen move up to the rest.
	to := seen
	for from := seen - 1; from >= 0; from-- {
		if w := q.at(from); w.kind() != kind {
			to--
			*q.at(to) = *w
		}
	}
	q.drop(to)
}

// finishBatch ends the sequences of the batch, as finish does those of a step. Cancelled
// ones have run with it and have no events.
func (e *Engine) finishBatch(dst []Event, like Event) []Event {
	s := &e.step
	s.busy, s.load = false, 0
	for i := range s.joining {
		q := &s.joining[i]
		e.held -= q.prompt
		if slices.Contains(e.cancelled, q.id) {
			continue
		}
		e.produced += uint64(q.output)
		like.ID, like.Kind = q.id, FirstToken
		dst = append(dst, like)
		like.Kind = Finished
		dst = append(dst, like)
	}
	s.joining, e.cancelled = s.joining[:0], e.cancelled[:0]
	return dst
}
