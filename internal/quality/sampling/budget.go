package sampling

import (
	"errors"
	"sync"
)

// errBudget reports that a prompt, or a further attempt at it, does not fit into the budget.
var errBudget = errors.New("the budget is used up")

// budget counts tokens. What prompts under way may take is reserved, so that the limit holds as
// far as engines take no more than they are asked to.
type budget struct {
	limit int // 0: none

	mu             sync.Mutex // protects all below
	settled        sync.Cond  // something reserved was released
	used, reserved int
}

func newBudget(limit int) *budget {
	b := &budget{limit: limit}
	b.settled.L = &b.mu
	return b
}

// share holds the tokens that are reserved for one prompt.
type share struct {
	of   *budget
	left int // protected by the budget's mutex
}

// reserve takes tokens for a prompt. While they do not fit it waits for other prompts, which may
// have needed less than was reserved for them; false if there is none to wait for.
func (b *budget) reserve(n int) (*share, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.fits(n) {
		if b.reserved == 0 {
			return nil, false
		}
		b.settled.Wait()
	}
	b.reserved += n
	return &share{of: b, left: n}, true
}

// fits reports whether so many tokens are left. The lock is held.
func (b *budget) fits(n int) bool { return b.limit == 0 || b.used+b.reserved+n <= b.limit }

// spend counts tokens that a request took.
func (s *share) spend(n int) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	covered := min(n, s.left)
	s.left -= covered
	s.of.reserved -= covered
	s.of.used += n
}

// extend reserves tokens for a request that is sent once more; false if they do not fit.
func (s *share) extend(n int) bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if !s.of.fits(n) {
		return false
	}
	s.of.reserved += n
	s.left += n
	return true
}

// release gives back what the prompt did not need.
func (s *share) release() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.reserved -= s.left
	s.left = 0
	s.of.settled.Broadcast()
}
