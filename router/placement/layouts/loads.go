package layouts

import (
	"math"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/placement/replicas"
)

// Tokens are the mean lengths of a task's requests.
type Tokens struct{ Prompt, Output float64 }

// forecast expects the loads of tasks from a ledger's counts. The rate of all is smoothed over the horizon. Once a day
// has been seen, it changes as it did on the days before. The shares of tasks are those of some hundred requests.
type forecast struct {
	ledger  *fleet.Ledger
	horizon time.Duration
	daily   *replicas.Forecaster
	loads   []Load
	shares  []float64
	begun   []uint64 // at the last reading, by task
	scratch []uint64
	arrived uint64
	at      time.Duration
	rate    float64
	weight  float64 // of what has been seen, so that the start does not count as a time without load
	minute  struct {
		began   time.Duration
		arrived uint64
	}
}

const (
	// remembered is about the number of requests over which the shares of tasks are averaged.
	remembered = 300
	// interval is the time over which each rate of a day is measured.
	interval = time.Minute
)

// newForecast returns a forecast that assumes the shares until requests have arrived.
func newForecast(l *fleet.Ledger, horizon time.Duration, shares []float64, tokens []Tokens) *forecast {
	f := &forecast{ledger: l, horizon: horizon, loads: make([]Load, len(shares)), shares: append([]float64{}, shares...), begun: make([]uint64, len(shares))}
	for t, x := range tokens {
		f.loads[t].Prompt, f.loads[t].Output = x.Prompt, x.Output
	}
	o := replicas.Daily(interval)
	o.Ahead = max(1, int((horizon+interval-1)/interval))
	f.daily, _ = replicas.NewForecaster(o) // which holds for any horizon below a day
	return f
}

// read takes the ledger's counts, and returns the loads.
func (f *forecast) read(now time.Duration) []Load {
	tasks, arrived, declared := f.ledger.Arrivals(f.scratch[:0])
	f.scratch = tasks
	f.share(tasks)
	if passed := (now - f.at).Seconds(); passed > 0 {
		keep := math.Exp(-passed / f.horizon.Seconds())
		f.rate = keep*f.rate + (1-keep)*float64(arrived-f.arrived)/passed
		f.weight = keep*f.weight + 1 - keep
		f.at, f.arrived = now, arrived
	}
	if took := now - f.minute.began; took >= interval {
		f.daily.Observe(float64(arrived-f.minute.arrived) / took.Seconds())
		f.minute.began, f.minute.arrived = now, arrived
	}
	rate, later := declared, declared
	if declared == 0 && f.weight > 0 {
		rate = f.rate / f.weight
		later = rate * f.changes()
	}
	for t, share := range f.shares {
		f.loads[t].Rate, f.loads[t].Forecast = rate*share, later*share
	}
	return f.loads
}

// share corrects the shares of tasks by the requests that have begun since.
func (f *forecast) share(begun []uint64) {
	n := 0.0
	for t := range begun {
		n += float64(begun[t] - f.begun[t])
	}
	if n == 0 {
		return
	}
	keep := math.Exp(-n / remembered)
	for t := range begun {
		f.shares[t] = keep*f.shares[t] + (1-keep)*float64(begun[t]-f.begun[t])/n
	}
	copy(f.begun, begun)
}

// changes returns the factor by which days before have changed from now until the horizon.
func (f *forecast) changes() float64 {
	if f.daily.Known() <= f.daily.Season {
		return 1
	}
	soon, later := f.daily.Expect(1), f.daily.Expect(1+f.daily.Ahead)
	if soon <= 0 {
		return 1
	}
	return min(4, max(0.25, later/soon))
}
