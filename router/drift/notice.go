package drift

import "time"

const (
	// calm is how long a condition must have been over before that is logged, so that one
	// that comes and goes is logged once.
	calm = time.Minute
	// again is the time after which a condition that still comes and goes is logged again.
	again = 10 * time.Minute
)

// notice decides what is logged about a condition that may come and go every few seconds.
// The zero value has logged nothing.
type notice struct {
	holds   bool          // the condition, now
	changed time.Duration // when it last came or went
	said    bool          // its beginning was logged, and its end not yet
	last    time.Duration // when something was last logged
	times   int           // how often it has begun since
}

// saying is what there is to log.
type saying int

const (
	nothing saying = iota
	began          // it holds
	goesOn         // it came and went several times since something was last logged
	over           // it has not held for [calm]
)

// see takes in whether the condition holds now, and returns what to log, with how many times
// it has begun since something was last logged.
func (n *notice) see(now time.Duration, holds bool) (what saying, times int) {
	if holds != n.holds {
		n.holds, n.changed = holds, now
		if holds {
			n.times++
		}
	}
	times = n.times
	switch {
	case !n.said && holds:
		what, n.said = began, true
	case n.said && !holds && now-n.changed >= calm:
		what, n.said = over, false
	case n.said && n.times > 1 && now-n.last >= again:
		what = goesOn
	default:
		return nothing, 0
	}
	n.last, n.times = now, 0
	return what, times
}
