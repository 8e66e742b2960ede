package evaluation

import (
	"iter"
	"slices"
)

// Credit splits what an episode is worth by an objective among its decisions, as rewards for
// a learner.
//
// A decision whose request the objective looks at alone is rewarded by what that earned. Of
// windows, each decision is rewarded by what its own request changed of the worth of all the
// windows that it is part of, given how the requests before it went and as if all after it
// earned their peaks, ÷ the requests in a window. So a window that is lost already costs
// nothing more, and the rewards add up to what all windows are worth less what they could
// have been, ÷ the requests in a window: the sum of potential differences (Ng, Harada and
// Russell 1999), which leaves the best policy the best.
//
// The reward of a decision is known once the requests before it in its windows have ended
// as well and those after it have come.
type Credit struct {
	objective Objective
	next      int // the decision that is rewarded next, for windows
	utility   []float64
	peaks     []float64 // sums over the decisions before; one more than there are decisions
	ended     []bool
	alone     []int // those that have ended and are rewarded for themselves
}

// NewCredit makes that of an objective, before an episode.
func NewCredit(o Objective) *Credit {
	c := &Credit{objective: o}
	c.Reset()
	return c
}

// Reset begins an episode.
func (c *Credit) Reset() {
	c.next = 0
	c.utility, c.ended, c.alone = c.utility[:0], c.ended[:0], c.alone[:0]
	c.peaks = append(c.peaks[:0], 0)
}

// Decided adds the next decision, on a request that can earn the peak.
func (c *Credit) Decided(peak float64) {
	c.utility, c.ended = append(c.utility, 0), append(c.ended, false)
	c.peaks = append(c.peaks, c.peaks[len(c.peaks)-1]+peak)
}

// Ended notes what the request of a decision earned.
func (c *Credit) Ended(decision int, utility float64) {
	c.utility[decision], c.ended[decision] = utility, true
	if c.objective.of == 0 {
		c.alone = append(c.alone, decision)
	}
}

// Known yields the decisions whose rewards have come to be known, with these. Over says that
// no further decision comes. Each is yielded once: what a caller that stops has not taken,
// the next call yields.
func (c *Credit) Known(over bool) iter.Seq2[int, float64] {
	return func(yield func(int, float64) bool) {
		for len(c.alone) > 0 {
			n := c.alone[0]
			c.alone = slices.Delete(c.alone, 0, 1)
			if !yield(n, c.objective.earned(c.utility[n], c.peak(n))) {
				return
			}
		}
		for size := c.objective.of; size > 0 && c.next < len(c.ended) && c.ended[c.next] && (over || c.next+size <= len(c.ended)); {
			n := c.next
			c.next++
			if !yield(n, c.reward(n)) {
				return
			}
		}
	}
}

// reward is what the request of decision n changed of the worth of its windows.
func (c *Credit) reward(n int) float64 {
	size := c.objective.of
	own := c.peak(n) - c.utility[n]
	var before, sum float64 // what is lost by the requests of the window before it
	for first := n; first >= max(0, n-size+1); first-- {
		if first < n {
			before += c.peak(first) - c.utility[first]
		}
		if end := first + size; end <= len(c.ended) {
			if most := c.peaks[end] - c.peaks[first]; most > 0 {
				sum += c.objective.Worth(1-(before+own)/most) - c.objective.Worth(1-before/most)
			}
		}
	}
	return sum / float64(size)
}

func (c *Credit) peak(decision int) float64 { return c.peaks[decision+1] - c.peaks[decision] }
