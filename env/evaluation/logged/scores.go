package logged

import (
	"math/rand/v2"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// Scores are estimates of what a policy would have earned per request, row by row:
// each logged view is shown to it, as if all before had gone as logged. They are of
// the requests whose deadline was judged and whose variant no client asked for.
type Scores struct {
	// Agreement is the share in which the policy chooses the logged variant.
	Agreement float64 `json:"agreement"`
	// Matched is what was measured where it does, each request weighing the inverse
	// of its propensity, by the sum of the weights (self-normalised inverse
	// propensity scoring). Nil if no such request is logged.
	Matched *evaluation.Interval `json:"matched,omitempty"`
	// Matches is how many such requests there are, EffectiveMatches how many of
	// equal weights would be worth as much (Kish 1965).
	Matches          int     `json:"matches"`
	EffectiveMatches float64 `json:"effective_matches"`
	// Forecast is the utility at the pace that the profiles forecast for the policy's
	// choice, with the errors that such forecasts have made on the log (the direct
	// method).
	Forecast *evaluation.Interval `json:"forecast,omitempty"`
	// DoublyRobust is the forecast, corrected by what was measured where the policy
	// agrees (Dudík et al. 2011).
	DoublyRobust *evaluation.Interval `json:"doubly_robust,omitempty"`
}

// Scorer makes Scores; see [NewScorer].
type Scorer struct {
	// Forecaster fills in the views' forecasts, for policies and for estimates.
	Forecaster env.Forecaster
	// Balancer picks the replica, for policies that choose a variant.
	Balancer env.Balancer

	log    *Log
	errors errors
}

// scored reports whether a decision counts.
func scored(d *Decision) bool { return d.Judged && !d.Pinned }

// Score asks the decider about each decision of the log that counts.
func (s *Scorer) Score(decider evaluation.Decider) Scores {
	l := s.log
	n := l.count(scored)
	matched, forecast, robust := newBlocks(n), newBlocks(n), newBlocks(n)
	all := []*blocks{matched, forecast, robust}
	scratch := make([]float32, decider.Scratch())
	var view fleet.View
	var scores Scores
	var agreed, weights, squares float64
	l.each(func(run int, d *Decision) {
		if !scored(d) {
			return
		}
		for _, b := range all {
			b.next(run)
		}
		view.CopyFrom(d.View)
		s.Forecaster.Forecast(&view, &d.Request)
		variant, replica := s.choose(&view, &d.Request, decider, scratch)
		if replica < 0 {
			return // no variant is available: no policy could have chosen
		}
		expected := s.errors.utility(&view, &d.Request, replica)
		forecast.add(expected, 1)
		correction := 0.0
		if variant == d.Variant {
			agreed++
			if d.Propensity > 0 {
				w := 1 / d.Propensity
				matched.add(d.Utility, w)
				expected = s.errors.utility(&view, &d.Request, d.Replica)
				correction = w * (d.Utility - expected)
				scores.Matches++
				weights, squares = weights+w, squares+w*w
			}
		}
		robust.add(expected+correction, 1)
	})
	if n > 0 {
		scores.Agreement = agreed / float64(n)
	}
	if squares > 0 {
		scores.EffectiveMatches = weights * weights / squares
	}
	scores.Matched, scores.Forecast, scores.DoublyRobust = known(matched), known(forecast), known(robust)
	return scores
}

func known(b *blocks) *evaluation.Interval {
	if x, ok := b.interval(); ok {
		return &x
	}
	return nil
}

// choose returns what the decider would have done; the replica is −1 if nothing can be.
func (s *Scorer) choose(v *fleet.View, r *fleet.Request, d evaluation.Decider, scratch []float32) (variant, replica int) {
	if p, ok := d.(evaluation.Placer); ok {
		if replica = p.Place(v, r, scratch); replica < 0 {
			return -1, -1
		}
		return v.Table.Replicas[replica].Variant, replica
	}
	if variant = d.Decide(v, r, scratch); variant < 0 {
		return -1, -1
	}
	return variant, s.Balancer.Pick(v, r, variant, chance(r.ID))
}

// chance returns a request's random number for the balancer, the same each time.
func chance(id uint64) uint64 { return rand.NewPCG(chanceStream, id).Uint64() }

// chanceStream sets these numbers apart from others of a seed.
const chanceStream = 0x6368616e6365
