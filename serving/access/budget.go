package access

import (
	"sync"
	"time"
)

// spending is what a holder has used of its token budgets. Days and months are those of
// UTC.
type spending struct {
	mu       sync.Mutex // protects all below
	day      int64      // days since 1970
	month    int64      // months since year 0
	inDay    int64
	inMonth  int64
	reserved int64 // by requests that are under way
	total    uint64
	refused  uint64
}

// turn begins a new day or month where one has come. A clock that was set back renews nothing. The caller
// holds s.mu.
func (s *spending) turn(now time.Time) {
	day, month := now.Unix()/86400, monthOf(now)
	if day > s.day {
		s.inDay = 0
	}
	if month > s.month {
		s.inMonth = 0
	}
	s.day, s.month = day, month
}

func monthOf(now time.Time) int64 {
	now = now.UTC()
	return int64(now.Year())*12 + int64(now.Month()) - 1
}

// Spend is what one request may use of its key's token budgets until its End. The zero
// value is of a request without a budget.
type Spend struct {
	of     *Holder
	tokens int64
}

// Reserve sets aside what a request is expected to use. Refused, it returns the time until
// the budget that is used up is renewed.
func (h *Holder) Reserve(now time.Time, tokens int64) (s Spend, wait time.Duration, ok bool) {
	l := h.Limits()
	x := &h.spent
	x.mu.Lock()
	defer x.mu.Unlock()
	x.turn(now)
	u := now.UTC()
	switch {
	case l.TokensPerMonth > 0 && x.inMonth+x.reserved+tokens > l.TokensPerMonth:
		wait = time.Date(u.Year(), u.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(u)
	case l.TokensPerDay > 0 && x.inDay+x.reserved+tokens > l.TokensPerDay:
		wait = time.Date(u.Year(), u.Month(), u.Day()+1, 0, 0, 0, 0, time.UTC).Sub(u)
	default:
		x.reserved += tokens
		return Spend{h, tokens}, 0, true
	}
	x.refused++
	return Spend{}, wait, false
}

// Reserved is what was set aside.
func (s Spend) Reserved() int64 { return s.tokens }

// End gives back what was set aside, and counts what was used.
func (s Spend) End(now time.Time, used int64) {
	if s.of == nil {
		return
	}
	x := &s.of.spent
	x.mu.Lock()
	defer x.mu.Unlock()
	x.turn(now)
	x.reserved -= s.tokens
	x.inDay += used
	x.inMonth += used
	x.total += uint64(used)
}

// Used is how many tokens the holder has used since the start, and how many requests
// were refused because a budget is used up.
func (h *Holder) Used() (tokens, refused uint64) {
	h.spent.mu.Lock()
	defer h.spent.mu.Unlock()
	return h.spent.total, h.spent.refused
}
