package work

import "time"

// Charge counts what ended work has used against the token budgets of its key: nothing where no replica has done anything, and
// at least what was expected where only its caller knows. Of that nothing was done if it was
// cancelled: the caller got no lease.
func (w *Work) Charge(r Result) {
	used := int64(w.Request.PromptTokens) + int64(r.Tokens)
	switch {
	case w.Reported && r.Outcome == Cancelled:
		used = 0
	case w.Reported:
		used = max(used, w.Spend.Reserved())
	case r.Tokens > 0 || r.Outcome == Completed || r.Outcome == Cancelled:
	default:
		used = 0
	}
	w.Spend.End(time.Now(), used)
}
