package router

import (
	"math"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// AdmissionRule reports whether a request has room on a replica. It has if
//
//	time per token of the batch with it     ≤ Pace · deadline
//	time to its first token                 ≤ Pace · its deadline, less its wait so far
//	time to the end of its answer           ≤ Pace · its deadline
//	peak use of the KV cache of that batch  ≤ KV
//	requests of that batch                  ≤ Sequences
//
// The time is the view's forecast and, as of batches that renew themselves at the
// rate at which they end, a prefill for each request in Output tokens. The deadline is
// the tightest of all in that batch, for they all have one pace: a request that has
// plenty of time must not take that of others. It is taken to where nothing is left of
// a utility that decays softly. The first token, where the request has a deadline for
// that, comes after the step under way, taken to be as long as one of that batch, and
// the prefill of its prompt. The end is the view's forecast, where it has a deadline for
// that. The peak is what the batch is expected to hold at most if
// nothing more joins it.
//
// On a host where nothing is in flight there always is room: no request is slowed, and
// a fleet whose forecasts are wrong, or a deadline that nothing can hold, still gets
// answers. So it is where there are no forecasts.
//
// The deadlines of a request that was held for a replica to be loaded or woken count per token alone.
//
// A Rule is read-only and may be shared. Its zero value admits to idle hosts alone.
type AdmissionRule struct {
	// Pace is the share of the deadline that a forecast may fill.
	DeadlineShare float64
	// KV is the share of the KV cache that a batch may come to fill.
	KV float64
	// Output is the mean length of an answer, in tokens. Zero is unknown: then
	// prefills are not counted, and batches are taken not to grow.
	Output float64
	// Sequences is how many requests an engine runs at once; more would wait in it.
	// Zero is unknown.
	Sequences int
	// Profiles of the replicas, by index. Without them prefills are not counted.
	Profiles []*profile.Profile
}

// Room implements router.Gate.
func (x AdmissionRule) Room(v *fleet.View, r *fleet.Request, replica int) bool {
	if len(v.Forecasts) == 0 || idle(v, replica) {
		return true
	}
	n := int(v.InFlight[replica]) + sequences(r)
	if x.Sequences > 0 && n > x.Sequences {
		return false
	}
	task := &v.Table.Tasks[r.Task]
	deadlines := task.Deadlines(r)
	bound := task.Last(r.Deadline)
	if tightest := v.Tightest(replica); tightest > 0 {
		bound = min(bound, tightest)
	}
	forecast := &v.Forecasts[replica]
	step, prefill := forecast.Pace*fleet.Milliseconds(task.Allowed(r.Deadline)), x.prefill(r, replica)*v.Slowdown(replica)
	pace := step
	if x.Output > 0 {
		pace += float64(n) * (prefill / x.Output)
	}
	if pace > x.DeadlineShare*fleet.Milliseconds(bound) {
		return false
	}
	if left := deadlines.FirstToken - (v.Now - r.Arrival); deadlines.FirstToken > 0 && !r.Held && step+prefill > x.DeadlineShare*fleet.Milliseconds(left) {
		return false
	}
	if last := task.LastOf(deadlines.Total); deadlines.Total > 0 && !r.Held && forecast.Total*fleet.Milliseconds(deadlines.Total) > x.DeadlineShare*fleet.Milliseconds(last) {
		return false
	}
	return x.fill(v, r, replica) <= x.KV
}

// sequences is how many sequences the request makes.
func sequences(r *fleet.Request) int { return max(1, r.Answers) }

// idle says that nothing is in flight on the replica's host.
func idle(v *fleet.View, replica int) bool {
	for _, i := range v.Table.ReplicasOn(v.Table.Replicas[replica].Host) {
		if v.InFlight[i] > 0 {
			return false
		}
	}
	return true
}

// prefill is the time that the request's prompt takes.
func (x AdmissionRule) prefill(r *fleet.Request, replica int) float64 {
	if len(x.Profiles) == 0 {
		return 0
	}
	return x.Profiles[replica].Prefill(r.PromptTokens, 0)
}

// fill is the share of the replica's KV cache that its batch with the request is
// expected to come to fill; 0 if its size is unknown.
//
// With geometric lengths of mean L, exp(−t/L) of n requests are left after t steps,
// each t tokens longer: (held + n·t)·exp(−t/L) tokens, which is most at
// t = L − held/n.
func (x AdmissionRule) fill(v *fleet.View, r *fleet.Request, replica int) float64 {
	size := v.Table.Replicas[replica].KVTokens
	if size == 0 {
		return 0
	}
	held := float64(v.Held[replica]) + float64(r.PromptTokens)
	if most := float64(int(v.InFlight[replica])+sequences(r)) * x.Output; held < most {
		held = most * math.Exp(held/most-1)
	}
	return held / float64(size)
}
