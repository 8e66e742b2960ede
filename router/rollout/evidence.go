package rollout

import (
	"fmt"
	"math"
)

// Count is how requests have ended, since some beginning.
type Count struct {
	// Requests have ended, and Failed of them without an answer.
	Requests, Failed int
	// Sum and Squares are of the logarithms of the times that the others took, in seconds.
	Sum, Squares float64
}

// Add counts the end of a request. Seconds is the time that it took, which only an answer has.
func (c *Count) Add(failed bool, seconds float64) {
	c.Requests++
	if failed {
		c.Failed++
		return
	}
	x := math.Log(max(seconds, 1e-6))
	c.Sum += x
	c.Squares += x * x
}

// plus and minus are by member.
func (c Count) plus(o Count) Count {
	return Count{c.Requests + o.Requests, c.Failed + o.Failed, c.Sum + o.Sum, c.Squares + o.Squares}
}

func (c Count) minus(o Count) Count {
	return Count{c.Requests - o.Requests, c.Failed - o.Failed, c.Sum - o.Sum, c.Squares - o.Squares}
}

// answered is the number of answers, with the mean and the variance of the logarithm of their times.
func (c *Count) answered() (n, mean, variance float64) {
	n = float64(c.Requests - c.Failed)
	if n < 2 {
		return n, 0, 0
	}
	mean = c.Sum / n
	return n, mean, max(0, (c.Squares-n*mean*mean)/(n-1))
}

// share is the share of failures and its variance. Half a failure is added, so that a few
// requests without one do not count as certainty.
func (c *Count) share() (p, variance float64) {
	n := float64(c.Requests)
	p = (float64(c.Failed) + 0.5) / (n + 1)
	return p, p * (1 - p) / n
}

// Test decides whether a new version is worse than the old one. It is sequential: it may be
// asked after every request, and errs about as seldom as Level says over all the times that it is
// asked. It is the mixture sequential probability ratio test of two means (Robbins 1970; Johari,
// Pekelis and Walsh 2015, "Always valid inference"). With d for by how much the difference of the
// means exceeds what is tolerated, V for its variance, and t² for the variance of differences that
// matter, the likelihood of such differences against none is
//
//	√(V/(V+t²)) · exp(d²t² / (2V(V+t²)))
//
// which exceeds 1/Level with at most the probability Level where there is none, as far as means
// are normal and requests independent. It is asked of the share of failures and of the logarithm
// of times, each at half of Level.
type Test struct {
	// Least is how many requests both versions must have answered.
	Least int
	// Level is the probability of going back from a version that is not worse.
	Level float64
	// Failures is by how much the share of failures may be higher, and Slower by which factor times
	// may be longer.
	Failures, Slower float64
}

// DefaultTest has the defaults.
func DefaultTest() Test { return Test{Least: 50, Level: 0.01, Failures: 0.01, Slower: 1.25} }

// The differences that matter, as standard deviations: of shares, and of logarithms of times.
const (
	failuresMatter = 0.1
	timesMatter    = 0.3
)

// Worse reports why the new version is worse than the old; empty if nothing shows that.
func (t Test) Worse(old, next Count) string {
	if old.Requests < t.Least || next.Requests < t.Least {
		return ""
	}
	p0, v0 := old.share()
	p1, v1 := next.share()
	if t.exceeds(p1-p0-t.Failures, v0+v1, failuresMatter) {
		return failures(old, next)
	}
	n0, m0, s0 := old.answered()
	n1, m1, s1 := next.answered()
	if n0 < float64(t.Least) || n1 < float64(t.Least) {
		return ""
	}
	if t.exceeds(m1-m0-math.Log(t.Slower), s0/n0+s1/n1, timesMatter) {
		return fmt.Sprintf("its answers take %.2f times as long as those of the version before, in the geometric mean of %.0f and %.0f", math.Exp(m1-m0), n1, n0)
	}
	return ""
}

// failures says how many requests of both versions failed.
func failures(old, next Count) string {
	return fmt.Sprintf("%d of its %d requests failed, and %d of %d of the version before", next.Failed, next.Requests, old.Failed, old.Requests)
}

// exceeds reports whether a difference is above 0 by the test.
func (t Test) exceeds(d, variance, matters float64) bool {
	if !(d > 0) {
		return false
	}
	v, m := max(variance, 1e-12), matters*matters
	return math.Log(v/(v+m))/2+d*d*m/(2*v*(v+m)) >= -math.Log(t.Level/2)
}
