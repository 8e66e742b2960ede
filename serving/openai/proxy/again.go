package proxy

import (
	"io"
	"slices"
	"time"

	"gearshift/serving/work"
)

const (
	// lossShows is how long it may take until a replica that broke off shows to be lost, and
	// until something is loaded in its place.
	lossShows = 100 * time.Millisecond
	// lossWaits is how long a lost replica is waited for where none other could answer: the loss
	// may be a false alarm, or its host come back.
	lossWaits = 2 * time.Second
	// lossCheck is how often a place is looked for meanwhile.
	lossCheck = 5 * time.Millisecond
)

// again moves the work on for a retry: to another replica of its variant, or to
// another variant if the policy had chosen it. It reports false if the request
// has had its retries, all requests together have, or no replica is left. An attempt of
// which nothing was sent, or that was refused, is no work for the fleet, and none of its retries.
// Health has those that refuse asked less often. Nor is one at a
// replica that is lost, however many of those there are: work that was begun goes on wherever
// anything can take it.
func (d *dispatch) again(a *answer, reason failure) bool {
	if d.carrier != nil && !unreachable(a.err) { // a carrier sends once
		return false
	}
	most := d.Settings().Retries.Max
	if len(d.tried)-d.absent-d.lost > most || reason == failedLost && most == 0 {
		return false // hedges count as well
	}
	now := d.Clock()
	d.decided = now
	variant := d.Work.Variant
	others := d.Variant == work.Auto && (d.Endpoint.Alike || a.absent)
	pays := !(unreachable(a.err) || a.refusal() || a.misplaced() || a.absent || reason == failedLost)
	if pays && !d.budget.take(now) {
		if pays = false; !d.isLost(a, reason) {
			d.Metrics.Exhausted()
			return false
		}
	}
	move := d.Work.Move
	if d.batch != nil { // whose plan has bounded what waits
		move = d.Work.MoveOver
	}
	if !move(d.skipped(), others) && !(d.isLost(a, reason) && d.moveOver(others)) {
		if pays {
			d.budget.giveBack(now)
		}
		return false
	}
	d.Metrics.Retried(string(reason), d.Work.Variant == variant)
	return true
}

// isLost reports whether the replica is lost. Where its connection broke, that takes a moment to
// show.
func (d *dispatch) isLost(a *answer, reason failure) bool {
	switch reason {
	case failedLost:
		return true
	case failedConnect:
		return a.pending.isOut()
	case failedBroken:
		return (a.response == nil || a.err != nil && a.err != io.EOF) && a.pending.showsOut(d.ctx, lossShows)
	}
	return false
}

// skipped are the replicas that are not tried again: those tried, except for such that were lost.
// They are out until they are well.
func (d *dispatch) skipped() []int {
	if d.lost == 0 {
		return d.tried
	}
	return slices.DeleteFunc(slices.Clone(d.tried), func(i int) bool { return slices.Contains(d.gone, i) })
}

// moveOver moves work of a lost replica to another that is up, full or not. Where none is, it
// waits for one that is being loaded, or comes back.
func (d *dispatch) moveOver(others bool) bool {
	for began := d.Clock(); ; {
		d.decided = d.Clock()
		if d.Work.MoveOver(d.skipped(), others) {
			return true
		}
		cold, loading, out := d.Work.Replaceable(d.skipped(), others)
		waited := d.Clock() - began
		if d.Clock() >= d.Until || !loading && !(cold && waited < lossShows) && !(out && waited < lossWaits) {
			return false
		}
		timer := time.NewTimer(lossCheck)
		select {
		case <-timer.C:
		case <-d.ctx.Done():
			timer.Stop()
			return false
		}
	}
}
