package drift

import "time"

const (
	// calm is for how long a belief must have been over before that is logged: one that
	// comes and goes is said once.
	calm = time.Minute
	// again is after what time a belief that still comes and goes is said once more.
	again = 10 * time.Minute
)

// notice decides what is logged of a belief that may come and go every few seconds. The
// zero value has logged nothing.
type notice struct {
	holds   bool          // the belief, now
	changed time.Duration // when it last came or went
	said    bool          // it was said, and not yet that it is over
	last    time.Duration // when something was last said
	times   int           // that it came since
}

// saying is what there is to say.
type saying int

const (
	nothing saying = iota
	began          // it holds
	goesOn         // it came and went so many times since something was last said
	over           // it has not held for [calm]
)

// see takes in whether the belief holds now, and says what to say, with how many times
// it came since something was last said.
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
