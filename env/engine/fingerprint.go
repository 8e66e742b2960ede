package engine

import (
	"math"
	"time"

	"gearshift/internal/splitmix"
)

// Fingerprint is a hash of all that decides what the host does from now on, the
// time included. Hosts of the same configuration with equal fingerprints go the
// same way if the same sequences are submitted, except with a chance of one in 2⁶⁴:
// histories that differ may so be found to have met. Identity gives a sequence's
// ID, which is arbitrary, a number that is the same in all histories.
func (h *Host) Fingerprint(identity func(id uint64) uint64) uint64 {
	var sum uint64
	for i, e := range h.engines {
		end := time.Duration(-1)
		if e.step.busy {
			end = h.ends[i]
		}
		sum = splitmix.Next(sum ^ e.fingerprint(end, identity))
	}
	return sum
}

func (e *Engine) fingerprint(end time.Duration, identity func(id uint64) uint64) uint64 {
	s := &e.step
	one := func(q *sequence, generated int, place uint64) uint64 {
		x := splitmix.Next(identity(q.id) ^ place<<48)
		x = splitmix.Next(x ^ uint64(q.output)<<32 ^ uint64(generated))
		// Which of two is the newer counts when one is preempted.
		x = splitmix.Next(x ^ (e.admitted - q.order))
		if e.batching != nil { // when a batch begins may depend on when its first came
			x = splitmix.Next(splitmix.Next(x^uint64(q.came())) ^ uint64(q.kind()))
		}
		return x
	}
	var sum uint64 // the running ones lie in a heap, whose layout is arbitrary
	for i := range e.running {
		q := &e.running[i]
		sum += one(q, q.generated+int(e.decodes-q.joined), 1)
	}
	for i := range s.joining {
		sum = splitmix.Next(sum ^ one(&s.joining[i], s.joining[i].generated, 2))
	}
	if s.hasPart {
		sum = splitmix.Next(sum ^ one(&s.partial, s.partial.generated, 3) ^ uint64(s.prefilled))
	}
	for i := range e.waiting.size {
		q := *e.waiting.at(i)
		q.order = e.admitted // it will be admitted again
		sum = splitmix.Next(sum ^ one(&q, q.generated, 4))
	}
	if s.busy && s.decoding {
		sum = splitmix.Next(sum ^ 5)
	}
	if s.gathering {
		sum = splitmix.Next(sum ^ 6)
	}
	if e.delay > 0 {
		sum = splitmix.Next(sum ^ uint64(e.delay) ^ 7)
	}
	return splitmix.Next(splitmix.Next(sum^uint64(end)) ^ math.Float64bits(s.duty()))
}
