package limits

import "sync/atomic"

// Answers is the budget of what is buffered of answers: a buffer for each request that
// is dispatched, and what is kept of long answers to read their usage. The latter has
// half of it at most. Its methods may be called from any goroutine.
type Answers struct {
	limit, held, kept atomic.Int64
	full, unread      atomic.Uint64
}

// NewAnswers makes a budget of so many bytes.
func NewAnswers(limit int64) *Answers {
	a := new(Answers)
	a.SetLimit(limit)
	return a
}

// SetLimit changes the budget. What is held beyond it stays until it is given back.
func (a *Answers) SetLimit(limit int64) { a.limit.Store(limit) }

// Take charges the buffer of a request. It reports false if there is no room.
func (a *Answers) Take(n int64) bool {
	if a.held.Add(n) > a.limit.Load() {
		a.held.Add(-n)
		a.full.Add(1)
		return false
	}
	return true
}

// Give gives back what was taken.
func (a *Answers) Give(n int64) { a.held.Add(-n) }

// Keep charges what is kept of an answer. It reports false if there is no room; then the
// answer passes all the same, unread.
func (a *Answers) Keep(n int64) bool {
	limit := a.limit.Load()
	if a.kept.Add(n) <= limit/2 {
		if a.held.Add(n) <= limit {
			return true
		}
		a.held.Add(-n)
	}
	a.kept.Add(-n)
	a.unread.Add(1)
	return false
}

// Drop gives back what was kept.
func (a *Answers) Drop(n int64) {
	a.kept.Add(-n)
	a.held.Add(-n)
}

// AnswersUsage is what the budget holds, and has refused.
type AnswersUsage struct {
	Held, Limit int64
	Full        uint64 // requests refused
	Unread      uint64 // answers whose usage was not read
}

// Usage is that of now.
func (a *Answers) Usage() AnswersUsage {
	return AnswersUsage{a.held.Load(), a.limit.Load(), a.full.Load(), a.unread.Load()}
}
