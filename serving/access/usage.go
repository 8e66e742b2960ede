package access

import "time"

// Usage is what a key has used of its budgets, as it is kept over a restart.
type Usage struct {
	Day         string `json:"day"` // of UTC, as 2026-01-31
	DayTokens   int64  `json:"day_tokens"`
	MonthTokens int64  `json:"month_tokens"` // in the month of that day
}

// Usage is what each holder has used, by name. Those that have used nothing are left out.
func (r *Ring) Usage(now time.Time) map[string]Usage {
	out := map[string]Usage{}
	for _, h := range r.Holders() {
		s := &h.spent
		s.mu.Lock()
		s.turn(now)
		if s.inMonth > 0 {
			out[h.Name] = Usage{now.UTC().Format(time.DateOnly), s.inDay, s.inMonth}
		}
		s.mu.Unlock()
	}
	return out
}

// Restore adds what was used before a restart, as far as it is of this day and month.
func (r *Ring) Restore(kept map[string]Usage, now time.Time) {
	for _, h := range r.Holders() {
		u, ok := kept[h.Name]
		day, err := time.Parse(time.DateOnly, u.Day)
		if !ok || err != nil {
			continue
		}
		s := &h.spent
		s.mu.Lock()
		s.turn(now)
		if monthOf(day) >= s.month { // a later one where the clock was set back
			s.inMonth += max(0, u.MonthTokens)
		}
		if day.Unix()/86400 >= s.day {
			s.inDay += max(0, u.DayTokens)
		}
		s.mu.Unlock()
	}
}
