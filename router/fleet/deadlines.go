package fleet

import "time"

// Deadlines are those that hold for a request, each counted from its arrival. Zero is
// none.
type Deadlines struct {
	// PerToken is to the end of the answer, divided by its output tokens.
	PerToken time.Duration
	// FirstToken is to the first token, or to the beginning of an answer in one piece.
	FirstToken time.Duration
	// Total is to the end of the answer.
	Total time.Duration
}

// Times is how long an answer took, or is forecast to take, each counted as the deadline
// of the same name. A zero is in time: what is not known costs nothing.
type Times struct{ PerToken, FirstToken, Total time.Duration }

// Took is how long an answer of so many output tokens took. For one that has none (a
// class, an embedding) the whole latency stands for that per token.
func Took(first, total time.Duration, tokens int) Times {
	return Times{PerToken: total / time.Duration(max(1, tokens)), FirstToken: first, Total: total}
}

// Deadlines are the request's own and, where it has none of a kind, the task's.
func (t *Task) Deadlines(r *Request) Deadlines {
	d := Deadlines{PerToken: t.Deadline, FirstToken: t.FirstToken, Total: t.Total}
	if r.Deadline > 0 {
		d.PerToken = r.Deadline
	}
	if r.FirstToken > 0 {
		d.FirstToken = r.FirstToken
	}
	if r.Total > 0 {
		d.Total = r.Total
	}
	return d
}

// Of is what of the deadlines holds for an answer of so many output tokens: of one
// without any, that to its end in place of that per token, if there is one.
func (d Deadlines) Of(tokens int) Deadlines {
	if tokens < 1 && d.Total > 0 {
		d.PerToken = 0
	}
	return d
}

// More reports whether there is a deadline other than that per output token.
func (d Deadlines) More() bool { return d.FirstToken > 0 || d.Total > 0 }

// Met reports whether all of them held.
func (d Deadlines) Met(took Times) bool {
	return met(took.PerToken, d.PerToken) && met(took.FirstToken, d.FirstToken) && met(took.Total, d.Total)
}

// met reports whether a deadline held, or is none.
func met(took, deadline time.Duration) bool { return took <= deadline || deadline <= 0 }

// Utility is weight × decay × quality[variant] (Eq. 1), where decay is the product of what
// the task's decay leaves after each of the deadlines: all of it where all held, nothing
// where one is missed by too much, and less for each that is missed by a little.
//
// A deadline to the first token or to the end decays by the share by which it is missed, as
// one per output token does at the paper's 40 ms: milliseconds of a whole answer are not
// those of one token.
func (t *Task) Utility(variant int, took Times, d Deadlines) float64 {
	return t.Worth(t.Quality[variant], took, d)
}

// Worth is Utility for an answer whose quality is known, such as by a label.
func (t *Task) Worth(quality float64, took Times, d Deadlines) float64 {
	left := 1.0
	if d.PerToken > 0 {
		left = t.factor(Milliseconds(took.PerToken), Milliseconds(d.PerToken))
	}
	if !met(took.FirstToken, d.FirstToken) {
		left *= t.share(took.FirstToken, d.FirstToken)
	}
	if !met(took.Total, d.Total) {
		left *= t.share(took.Total, d.Total)
	}
	return t.Weight * left * quality
}

// paperDeadline is the deadline of the paper, in milliseconds per output token, at which
// decays are defined (LBE-4).
const paperDeadline = 40

// share is what the decay leaves of an answer that took so many times its deadline.
func (t *Task) share(took, deadline time.Duration) float64 {
	return t.factor(paperDeadline*(float64(took)/float64(deadline)), paperDeadline)
}

// LastOf is the time up to which something is left of the utility after a deadline to the
// first token or to the end.
func (t *Task) LastOf(deadline time.Duration) time.Duration {
	if soft, ok := t.Decay.(laster); ok {
		return time.Duration(float64(deadline) * soft.Last(paperDeadline) / paperDeadline)
	}
	return deadline
}

// Expects is what the forecast comes to against the deadlines.
func (f *Forecast) Expects(d Deadlines) Times {
	return Times{PerToken: times(f.Pace, d.PerToken), FirstToken: times(f.First, d.FirstToken), Total: times(f.Total, d.Total)}
}

// times is a multiple of a deadline, at most what a Duration can be.
func times(x float64, deadline time.Duration) time.Duration {
	const most = float64(1<<63 - 1024) // the largest float64 below 1<<63
	return time.Duration(min(x*float64(deadline), most))
}
