package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/config"
	"gearshift/serving/work"
)

// attempts counts what happens to requests on their way: further attempts, and
// the phases that took too long.
type attempts struct {
	retries     *prometheus.CounterVec // reason, to
	exhausted   prometheus.Counter
	hedges      *prometheus.CounterVec // result
	timeouts    *prometheus.CounterVec // phase
	firstTokens *prometheus.CounterVec // variant, result
	totals      *prometheus.CounterVec // variant, result
}

func newAttempts(t *fleet.Table, failures []string, counter func(name, help string, labels ...Label) *prometheus.CounterVec) attempts {
	return attempts{
		retries:     counter("retries_total", "Requests tried again, by what was wrong and where they went.", Label{"reason", failures}, Label{"to", []string{"replica", "variant"}}),
		exhausted:   counter("retries_exhausted_total", "Requests that would have been tried again but for the retry budget.").WithLabelValues(),
		hedges:      counter("hedges_total", "Second replicas asked because the first was slow, by whether they answered first.", Label{"result", []string{"won", "lost", "failed"}}),
		timeouts:    counter("timeouts_total", "Requests that ended because a phase took too long.", Label{"phase", config.Phases[:]}),
		firstTokens: counter("first_token_deadlines_total", "Deadlines for the first token, met and missed.", variantLabel(t), resultLabel),
		totals:      counter("total_deadlines_total", "Deadlines for the end of answers, met and missed.", variantLabel(t), resultLabel),
	}
}

// Retried counts a further attempt, by what was wrong with the one before and where it goes.
func (b *attempts) Retried(reason string, sameVariant bool) {
	to := "variant"
	if sameVariant {
		to = "replica"
	}
	b.retries.WithLabelValues(reason, to).Inc()
}

// Exhausted counts a request that is not tried again because the retry budget is used up.
func (b *attempts) Exhausted() { b.exhausted.Inc() }

// Hedged counts a second replica that was asked: its result is won, lost or failed.
func (b *attempts) Hedged(result string) { b.hedges.WithLabelValues(result).Inc() }

// TimedOut counts a request that ended because the phase took too long.
func (b *attempts) TimedOut(phase config.Phase) {
	b.timeouts.WithLabelValues(config.Phases[phase]).Inc()
}

// deadlines counts ended work that has a deadline for its first token or its end. One that
// never came is missed, unless the client did not wait for it or is at fault.
func (b *attempts) deadlines(t *fleet.Table, w *work.Work, r work.Result) {
	d, variant := t.Tasks[w.Request.Task].Deadlines(&w.Request), t.Variants[w.Variant].Name
	excused := r.Outcome == work.Cancelled || r.Outcome == work.Refused || r.Outcome == work.Expired
	enter := func(counts *prometheus.CounterVec, deadline, took time.Duration) {
		switch {
		case deadline == 0:
		case took > 0 && took <= deadline:
			counts.WithLabelValues(variant, "met").Inc()
		case took > 0 || !excused:
			counts.WithLabelValues(variant, "missed").Inc()
		}
	}
	if w.FirstToken > 0 || !w.Reported { // of a leased one nobody may have said when it came
		enter(b.firstTokens, d.FirstToken, w.FirstToken)
	}
	if r.Outcome == work.Completed {
		enter(b.totals, d.Total, r.Latency)
	} else {
		enter(b.totals, d.Total, 0)
	}
}
