package proxy

import (
	"net/http"
	"slices"
	"time"

	"gearshift/router/health"
	"gearshift/serving/openai/complaint"
)

// compared returns the answer that the client is to get where a replica has answered with an
// error that no other attempt would mend by itself: that of another replica of the variant, if the
// replica's errors are doubted and the other answers. The other shows whose the error is. Errors
// that cost no work use no budget.
func (d *dispatch) compared(a *answer) *answer {
	defer a.guard()
	if d.carrier != nil || !d.doubts(a) {
		return a
	}
	now := d.Clock()
	d.decided = now
	pays := failing(a.status())
	if pays && !d.budget.take(now) {
		d.Metrics.Exhausted()
		return a
	}
	reserved, ok := d.Work.Second(d.tried)
	if !ok {
		if pays {
			d.budget.giveBack(now)
		}
		return a
	}
	defer reserved.End() // unless the work has taken it over
	d.Metrics.Retried(string(health.ErrorAlone), true)
	b := d.attempt(reserved.Replica)
	defer b.guard()
	d.send(b)
	reason, unfit := b.unfit()
	switch {
	case d.over(b):
	case unfit:
		d.report(b, reason)
	case b.status() >= http.StatusBadRequest:
		a.reported = true
		d.Health.Agreed(a.replica, a.sent)
		d.Health.Agreed(b.replica, b.sent)
	default:
		d.report(a, health.ErrorAlone)
		d.Work.Adopt(reserved)
		a.close()
		return b
	}
	b.close()
	return a
}

// doubts reports whether the answer is an error that may be the replica's alone.
func (d *dispatch) doubts(a *answer) bool {
	if _, unfit := a.unfit(); unfit {
		return false
	}
	switch status := a.status(); {
	case status < http.StatusBadRequest || a.complaint == complaint.Context:
		return false
	case status == http.StatusUnauthorized, status == http.StatusForbidden: // of the client's own key
		return false
	}
	return !d.over(a) && len(d.tried)-d.absent-d.lost <= d.Settings().Retries.Max && d.Health.Doubted(a.replica)
}

// erred is an attempt that a replica answered with an error.
type erred struct {
	replica int
	sent    time.Duration
	counted bool // as a failure
}

// conclude reports what the attempts before the last one show. If that has answered, their errors
// were the replicas'. If it has not, an error that two replicas gave is the request's, and counts
// for neither.
func (d *dispatch) conclude(a *answer) {
	if d.erred == nil || d.over(a) {
		return
	}
	_, unfit := a.unfit()
	failed := unfit || a.status() >= http.StatusBadRequest
	if !unfit && failed {
		d.erred = append(d.erred, erred{replica: a.replica, sent: a.sent})
	}
	for _, b := range d.erred {
		switch {
		case !failed && !b.counted:
			d.Health.Failed(b.replica, health.ErrorAlone, b.sent)
		case failed && slices.ContainsFunc(d.erred, func(c erred) bool { return c.replica != b.replica }):
			d.Health.Agreed(b.replica, b.sent)
			a.reported = a.reported || b.replica == a.replica
		}
	}
}
