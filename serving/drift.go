package serving

import (
	"context"
	"time"

	"gearshift/router/drift"
	"gearshift/router/signals"
)

// watchDrift has the pace of answers compared with the replicas' profiles.
func (s *Server) watchDrift() error {
	m := s.drift
	if m == nil {
		return nil
	}
	m.OnSlow = s.router.Ledger().SlowDown
	m.Correct(s.corrects())
	s.adapter.drift = m
	s.signals.OnCorrect = func(replica int, others signals.Count) { m.Others(replica, others.InFlight, others.Held) }
	return s.books.registry.Register(driftMetrics{m, s.router.Ledger().Table()})
}

// corrects says whether forecasts go by slow replicas. Among several routers none does:
// the prompts of the others, which it does not know of, lengthen what it measures.
func (s *Server) corrects() bool {
	c := s.settings()
	return c.Drift.Correct && c.Routers == 1
}

// fadeDrift lets replicas that were slow be tried again, until ctx ends.
func (s *Server) fadeDrift(ctx context.Context) {
	tick := time.NewTicker(drift.FadeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.drift.Fade(s.clock())
		case <-ctx.Done():
			return
		}
	}
}

// joins has work whose tokens are not seen one by one count among those that decode
// on its replica: from its place on, for lack of anything better. A stream does so
// from its first token on, see decodes.
func (w *Work) joins(now time.Duration) {
	if w.adapter.drift != nil && !w.streams {
		w.adapter.drift.Enter(&w.stay, w.Replica, now, w.Request.PromptTokens, w.unseen, false)
	}
}

// decodes notes the tokens of a stream.
func (w *Work) decodes(generated int) {
	m := w.adapter.drift
	switch {
	case m == nil || !w.streams || generated == 0:
	case w.stay.Inside():
		m.Advance(&w.stay, w.adapter.clock(), w.Request.PromptTokens, generated)
	default:
		m.Enter(&w.stay, w.Replica, w.Request.Arrival+w.FirstToken, w.Request.PromptTokens, generated, true)
	}
}

// moved takes the work along to another replica.
func (w *Work) moved() {
	if m := w.adapter.drift; m != nil && w.stay.Inside() {
		now := w.adapter.clock()
		m.Leave(&w.stay, now, 0, false)
		w.joins(now)
	}
}

// leaves ends the work's stay on its replica. What a caller says of an answer is not
// compared with the profile: it would have others believe that a replica is slow.
func (w *Work) leaves(outcome Outcome, tokens int) {
	if m := w.adapter.drift; m != nil && w.stay.Inside() {
		m.Leave(&w.stay, w.adapter.clock(), tokens, outcome == Completed && !w.told)
	}
}

// slowdownOf is for the status: nil of a replica that is not reckoned to be slow.
func (s *Server) slowdownOf(replica int) *float64 {
	if factor := s.drift.Shown(replica); factor > 1 {
		return number(factor)
	}
	return nil
}

// driftOf is for the status.
func (s *Server) driftOf(replica int) *float64 {
	if ratio, _, known := s.drift.Ratio(replica); known {
		return number(ratio)
	}
	return nil
}
