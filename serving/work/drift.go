package work

import "time"

// joins has work whose tokens are not seen one by one count among those that decode
// on its replica: from its place on, for lack of anything better. A stream does so
// from its first token on, see decodes.
func (w *Work) joins(now time.Duration) {
	m := w.adapter.Drift
	if m == nil {
		return
	}
	m.Place(&w.stay, w.Replica, now, w.Request.PromptTokens+w.Unseen)
	if !w.Streams {
		m.Enter(&w.stay, w.Replica, now, w.Request.PromptTokens, w.Unseen, false)
	}
}

// decodes notes the tokens of a stream.
func (w *Work) decodes(generated int) {
	m := w.adapter.Drift
	switch {
	case m == nil || !w.Streams || generated == 0:
	case w.stay.Inside():
		m.Advance(&w.stay, w.adapter.clock(), w.Request.PromptTokens, generated)
	default:
		m.Enter(&w.stay, w.Replica, w.Request.Arrival+w.FirstToken, w.Request.PromptTokens, generated, true)
	}
}

// moved takes the work along to another replica.
func (w *Work) moved() {
	if m := w.adapter.Drift; m != nil {
		now := w.adapter.clock()
		m.Leave(&w.stay, now, 0, false)
		w.joins(now)
	}
}

// leaves ends the work's stay on its replica. What a caller says of an answer is not
// compared with the profile: it would have others believe that a replica is slow.
func (w *Work) leaves(outcome Outcome, tokens int) {
	if m := w.adapter.Drift; m != nil {
		m.Leave(&w.stay, w.adapter.clock(), tokens, outcome == Completed && !w.Reported)
	}
}
