package engine

import "time"

// Sequence is one request as an engine sees it: it ends when OutputTokens have
// been generated, the first of them by the prefill.
type Sequence struct {
	ID                         uint64
	PromptTokens, OutputTokens int
	// Kind is the kind of its input, by its index in the cost model of an engine that runs
	// batches to their end. There, an answer may have no output tokens.
	Kind int

	// Of hosts that share their cores: Work is what it takes of one, Expected what it counts as
	// among the work that the host has, and Since when its client began with it.
	Work, Expected, Since time.Duration
}

// sequence is a Sequence inside an engine.
type sequence struct {
	id             uint64
	prompt, output int
	generated      int    // tokens so far; while running, what it was at decode step joined
	order          uint64 // of admission; the highest is the newest
	joined         uint64 // the engine's decode count when it began to decode
	finish         uint64 // the decode count at which it ends
}

// Where batches run to their end nothing decodes, and two of the fields have other uses:
// a sequence is copied too often to be any longer.

// came is when the sequence was submitted.
func (q *sequence) came() time.Duration { return time.Duration(q.joined) }

// kind is that of its input.
func (q *sequence) kind() int { return int(q.finish) }

// batched is the sequence for an engine that runs batches to their end.
func batched(s Sequence, now time.Duration) sequence {
	return sequence{id: s.ID, prompt: s.PromptTokens, output: s.OutputTokens, joined: uint64(now), finish: uint64(s.Kind)}
}

// before orders running sequences by their end, then by admission.
func (q *sequence) before(o *sequence) bool {
	return q.finish < o.finish || q.finish == o.finish && q.order < o.order
}

// finishHeap is a binary min-heap of running sequences by [sequence.before].
// container/heap would box every element, on the path of every request.
type finishHeap []sequence

func (h *finishHeap) push(s sequence) {
	*h = append(*h, s)
	h.up(len(*h) - 1)
}

// remove takes out the sequence at index i.
func (h *finishHeap) remove(i int) sequence {
	old := *h
	out, last := old[i], len(old)-1
	old[i] = old[last]
	*h = old[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
	return out
}

func (h finishHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (h finishHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right].before(&h[child]) {
			child = right
		}
		if !h[child].before(&h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// newest is the index of the sequence admitted last.
func (h finishHeap) newest() int {
	newest := 0
	for i := range h {
		if h[i].order > h[newest].order {
			newest = i
		}
	}
	return newest
}

// index is where the sequence with this ID is, or −1.
func (h finishHeap) index(id uint64) int {
	for i := range h {
		if h[i].id == id {
			return i
		}
	}
	return -1
}

// deque is the waiting line: a ring whose length is a power of two.
type deque struct {
	ring       []sequence
	head, size int
}

func (q *deque) at(i int) *sequence { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *deque) pushBack(s sequence) {
	q.grow()
	q.size++
	*q.at(q.size - 1) = s
}

func (q *deque) pushFront(s sequence) {
	q.grow()
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.size++
	*q.at(0) = s
}

func (q *deque) popFront() sequence {
	s := *q.at(0)
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.size--
	return s
}

// drop forgets the first n.
func (q *deque) drop(n int) {
	if n > 0 {
		q.head = (q.head + n) & (len(q.ring) - 1)
		q.size -= n
	}
}

// remove takes out the sequence with this ID, if it waits.
func (q *deque) remove(id uint64) (sequence, bool) {
	for i := range q.size {
		s := *q.at(i)
		if s.id != id {
			continue
		}
		for ; i < q.size-1; i++ {
			*q.at(i) = *q.at(i + 1)
		}
		q.size--
		return s, true
	}
	return sequence{}, false
}

func (q *deque) grow() {
	if q.size < len(q.ring) {
		return
	}
	ring := make([]sequence, max(16, 2*len(q.ring)))
	for i := range q.size {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}
