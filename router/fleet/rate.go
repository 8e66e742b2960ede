package fleet

import (
	"math"
	"time"
)

// RateWindow is how many of the last gaps between arrivals the rate estimate
// uses: the paper's "running average of the last 5 arrivals" (LBE-20).
const RateWindow = 5

// RateHorizons are the memories of the smoothed rates, in seconds: short enough
// to see a burst begin, long enough to know a rate well.
var RateHorizons = [...]float64{2, 10}

// SmoothedRates are arrival rates per second, one for each of [RateHorizons].
type SmoothedRates [len(RateHorizons)]float64

// Rates estimate the arrivals, shown in views as Rate and Smoothed.
type Rates struct {
	Rate     float64       `json:"rate"`
	Smoothed SmoothedRates `json:"smoothed"`
}

// Plus adds the rates.
func (r Rates) Plus(o Rates) Rates {
	r.Rate += o.Rate
	for i := range r.Smoothed {
		r.Smoothed[i] += o.Smoothed[i]
	}
	return r
}

// OwnRates returns the estimated rates of the router's own arrivals.
func (l *Ledger) OwnRates(now time.Duration) Rates {
	l.mu.Lock()
	defer l.mu.Unlock()
	rate, smoothed := l.rate.at(now)
	return Rates{rate, smoothed}
}

// ShareRate sets how many routers share the fleet and get equal shares of the requests.
// Views then show the rate of all: the router's own times their number. A declared rate is
// shown as it is.
func (l *Ledger) ShareRate(routers int) {
	l.mu.Lock()
	l.routers = float64(routers)
	l.mu.Unlock()
}

// ShareRates sets the rates of the other routers' arrivals, as they report them. Views then show the sum of theirs
// and the router's own, for any number of routers. Nil means unknown: then [Ledger.ShareRate] applies.
func (l *Ledger) ShareRates(others *Rates) {
	l.mu.Lock()
	l.others = others
	l.mu.Unlock()
}

// ofAll returns the rates of all routers' arrivals, from the router's own. The lock is held.
func (l *Ledger) ofAll(rate float64, smoothed SmoothedRates) (float64, SmoothedRates) {
	switch {
	case l.others != nil:
		all := Rates{rate, smoothed}.Plus(*l.others)
		return all.Rate, all.Smoothed
	case l.routers > 1:
		rate *= l.routers
		for i := range smoothed {
			smoothed[i] *= l.routers
		}
	}
	return rate, smoothed
}

// rateEstimator estimates the arrival rate as (n−1)/Σ of the last n ≤ 5 gaps.
//
// For Poisson arrivals the sum of n gaps is Gamma(n, 1/λ) and E[1/sum] =
// λ/(n−1), so n/sum would be biased by n/(n−1), +25 % at n = 5; (n−1)/sum is
// unbiased. Its relative standard deviation is 1/√(n−2), 0.58 at n = 5.
// With fewer than two gaps nothing is known and the estimate is zero.
//
// The smoothed rates weigh each arrival before the last by exp(−age/horizon),
// divided by the horizon: unbiased for steady Poisson arrivals once some
// horizons have passed since the first, with relative variance 1/(2λ·horizon).
//
// While nothing arrives, both go down: the smoothed rates decay, and the estimate is
// at most n/Σ of the gaps and the time since the last arrival. At the moment of an
// arrival that changes nothing.
//
// Concurrent callers may note arrivals a little out of order. One that is
// earlier than the last counts as simultaneous with it, so gaps never are
// negative.
type rateEstimator struct {
	gaps [RateWindow]time.Duration
	n    int // gaps seen, up to RateWindow
	next int
	last time.Duration
	any  bool

	smoothed SmoothedRates // as of last, without the arrival at last
}

func (e *rateEstimator) arrive(now time.Duration) {
	if e.any {
		now = max(now, e.last)
		e.gaps[e.next] = now - e.last
		e.next = (e.next + 1) % RateWindow
		e.n = min(e.n+1, RateWindow)
		for i, horizon := range RateHorizons {
			e.smoothed[i] = (e.smoothed[i] + 1/horizon) * math.Exp(-(now-e.last).Seconds()/horizon)
		}
	}
	e.last, e.any = now, true
}

// at is the estimate at the time now, and the smoothed rates.
func (e *rateEstimator) at(now time.Duration) (perSecond float64, smoothed SmoothedRates) {
	smoothed = e.smoothed
	since := now - e.last
	if since > 0 {
		for i, horizon := range RateHorizons {
			smoothed[i] *= math.Exp(-since.Seconds() / horizon)
		}
	}
	if e.n < 2 {
		return 0, smoothed
	}
	var sum time.Duration
	for _, g := range e.gaps[:e.n] {
		sum += g
	}
	// Arrivals within the same nanosecond still leave a finite rate.
	perSecond = float64(e.n-1) / max(sum, time.Nanosecond).Seconds()
	if since > 0 {
		perSecond = min(perSecond, float64(e.n)/(sum+since).Seconds())
	}
	return perSecond, smoothed
}
