// Package logged says what policies would have earned on requests that a router
// has served and logged: counterfactual, off-policy evaluation. Each way to
// estimate it rests on assumptions of its own, which the [Report] states.
//
//   - A replay plays the logged arrivals through the simulator. Queues react to
//     the policy, latencies are the simulator's.
//   - Row by row, the policy is asked what it would have chosen on the logged
//     view. Queues stay as they were; see [Scores].
package logged

import (
	"time"

	"gearshift/router/fleet"
)

// Decision is one logged request.
type Decision struct {
	// View is what was known, without forecasts. Its table has the limits that held.
	View *fleet.View
	// Request as the policy saw it; its arrival counts from the run's beginning.
	Request fleet.Request
	// Variant and Replica are what was chosen, by Policy.
	Variant, Replica int
	Policy           string
	// Pinned says that the client asked for the variant: no policy decides it.
	Pinned bool
	// Propensity is how likely the variant was to be chosen; zero if unknown.
	Propensity float64
	// OutputTokens is the length of the whole answer; zero if unknown.
	OutputTokens int
	// Judged says that the deadline was met or missed, and Utility what was earned.
	Judged, Met bool
	Utility     float64
	// Moved says that another replica answered, or another variant, because the
	// chosen one failed. What was earned counts for the choice all the same, but
	// says nothing about its speed.
	Moved bool
	// PerToken is from arrival to finish by output tokens; zero if unknown.
	PerToken time.Duration
}

// at is when the request arrived; if it had to wait, it was decided later.
func (d *Decision) at() time.Duration { return d.Request.Arrival }

// Run is the requests of one life of a server, in the order of their arrival.
type Run struct {
	Decisions []Decision
	// Missing is how many requests in between are not logged.
	Missing int
}

// Log is what is to be judged by.
type Log struct{ Runs []Run }

// each calls f for every decision, in order.
func (l *Log) each(f func(run int, d *Decision)) {
	for i := range l.Runs {
		for k := range l.Runs[i].Decisions {
			f(i, &l.Runs[i].Decisions[k])
		}
	}
}

// count returns how many decisions are such.
func (l *Log) count(such func(*Decision) bool) (n int) {
	l.each(func(_ int, d *Decision) {
		if such(d) {
			n++
		}
	})
	return n
}
