package admission

import (
	"errors"

	"gearshift/router"
	"gearshift/serving/admin/metrics"
)

// reportHeld reports a request that waits no longer, for the reason, if it was held.
func (q *Queue) reportHeld(w *router.Waiter[*waiter], err error) {
	var refused router.Refusal
	switch errors.As(err, &refused); {
	case err == nil && w.Request.Held:
		q.events.Held(w.Value.work.Variant, metrics.HeldBegun, w.Value.work.Waited)
	case refused.Reason == router.RefusedAsleep:
		q.events.Held(refused.Awaited-1, metrics.HeldTimedOut, q.clock()-w.Request.Arrival)
	case refused.Reason == router.RefusedHeld:
		q.events.Held(refused.Awaited-1, metrics.HeldFull, 0)
	case w.Request.Held && w.Awaited() >= 0:
		q.events.Held(w.Awaited(), metrics.HeldEnded, q.clock()-w.Request.Arrival)
	}
}
