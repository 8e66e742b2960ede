package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// perSecond is the estimate at the moment of the last arrival.
func perSecond(e *rateEstimator) float64 {
	rate, _ := e.at(e.last)
	return rate
}

// TestRateIsUnbiased draws Poisson arrivals: the mean estimate is within 1 % of
// the rate and its relative standard deviation is 1/√(n−2), 0.577 for 5 gaps.
// The estimates are of separate gaps, so they are independent.
func TestRateIsUnbiased(t *testing.T) {
	const draws = 200_000
	for _, rate := range []float64{0.25, 3.57, 48} {
		rng := rand.New(rand.NewPCG(7, 8))
		var e rateEstimator
		now, sum, squares := 0.0, 0.0, 0.0
		e.arrive(0)
		for range draws {
			for range RateWindow {
				now += rng.ExpFloat64() / rate
				e.arrive(time.Duration(now * float64(time.Second)))
			}
			x := perSecond(&e) / rate
			sum += x
			squares += x * x
		}
		mean := sum / draws
		sd := math.Sqrt(squares/draws - mean*mean)
		if math.Abs(mean-1) > 0.01 {
			t.Errorf("rate %v: the mean estimate is %.4f of it", rate, mean)
		}
		// The fourth moment of 1/Gamma(5) is barely finite, so the variance
		// converges slowly: its bound is wide.
		if want := 1 / math.Sqrt(RateWindow-2); math.Abs(sd-want) > 0.03 {
			t.Errorf("rate %v: the relative standard deviation is %.3f, want %.3f", rate, sd, want)
		}
	}
}

// TestSmoothedRateIsUnbiased draws Poisson arrivals and looks each time that
// some horizons have passed: the mean is the rate, and the relative variance 1/(2 rate horizon).
func TestSmoothedRateIsUnbiased(t *testing.T) {
	const looks = 5000
	for i, horizon := range RateHorizons {
		for _, rate := range []float64{0.5, 3.57, 48} {
			rng := rand.New(rand.NewPCG(9, uint64(i)))
			var e rateEstimator
			var sum, squares float64
			between := 10 + int(8*horizon*rate) // arrivals; a look at a set time would find a long gap
			now := 0.0
			for range looks {
				for range between {
					now += rng.ExpFloat64() / rate
					e.arrive(time.Duration(now * float64(time.Second)))
				}
				x := e.smoothed[i] / rate
				sum, squares = sum+x, squares+x*x
			}
			mean := sum / looks
			sd, want := math.Sqrt(squares/looks-mean*mean), 1/math.Sqrt(2*rate*horizon)
			if math.Abs(mean-1) > 4*want/math.Sqrt(looks) || math.Abs(sd/want-1) > 0.05 {
				t.Errorf("horizon %v s, rate %v: %.3f ± %.3f of the rate, want 1 ± %.3f", horizon, rate, mean, sd, want)
			}
		}
	}
}

func TestRateFromFewArrivals(t *testing.T) {
	var e rateEstimator
	for i, want := range []float64{0, 0, 0.5, 2. / 3, 3. / 4, 4. / 5, 4. / 5, 4. / 5} {
		e.arrive(time.Duration(i) * time.Second)
		if got := perSecond(&e); math.Abs(got-want) > 1e-12 {
			t.Errorf("after %d arrivals a second apart the rate is %v, want %v", i+1, got, want)
		}
	}
}

func TestRateOfArrivalsOutOfOrder(t *testing.T) {
	var e rateEstimator
	for _, at := range []time.Duration{5, 3, 4, 5, 2, 1} {
		e.arrive(at * time.Second)
	}
	if got := perSecond(&e); math.Abs(got-4e9) > 1 {
		t.Errorf("simultaneous arrivals have rate %v; it is finite: four gaps a nanosecond", got)
	}
	e.arrive(9 * time.Second)
	if got := perSecond(&e); got != 1 { // (5−1) over the 4 s since the latest
		t.Errorf("rate %v, want 1", got)
	}
}

// A router that gets a third of the requests knows the rate of all; a declared rate
// is that of all already.
func TestSharedRate(t *testing.T) {
	alone, third := NewLedger(table(t)), NewLedger(table(t))
	third.ShareRate(3)
	for i := range 300 {
		at := time.Duration(i) * 100 * time.Millisecond
		if alone.Arrive(at); i%3 == 0 {
			third.Arrive(at)
		}
	}
	var a, b, c View
	copied := NewLedger(table(t))
	copied.CopyFrom(third)
	alone.View(0, &a)
	third.View(0, &b)
	copied.View(0, &c)
	if math.Abs(a.Rate-b.Rate) > 1e-9 || math.Abs(a.Smoothed[1]-b.Smoothed[1]) > 0.4 || c.Rate != b.Rate {
		t.Errorf("rates %v %v, a third's %v %v, copied %v", a.Rate, a.Smoothed, b.Rate, b.Smoothed, c.Rate)
	}
	third.DeclareRate(7)
	if third.View(0, &b); b.Rate != 7 || b.Smoothed[0] != 7 {
		t.Errorf("declared 7, told %v %v", b.Rate, b.Smoothed)
	}
}

// Once nothing comes any more the rates go down; the next arrival finds them as if
// nobody had looked.
func TestRatesGoDownWhileNothingArrives(t *testing.T) {
	l := NewLedger(table(t))
	var v View
	for i := range 40 {
		l.Arrive(time.Duration(i) * 100 * time.Millisecond)
	}
	const last = 3900 * time.Millisecond
	l.View(last, &v)
	at := v
	for _, c := range []struct {
		since time.Duration
		rate  float64
	}{{-time.Second, 8}, {0, 8}, {125 * time.Millisecond, 8}, {500 * time.Millisecond, 5}, {time.Minute, 5 / 60.5}} {
		l.View(last+c.since, &v)
		if math.Abs(v.Rate-c.rate) > 1e-9 {
			t.Errorf("%v after the last arrival the rate is %v, want %v", c.since, v.Rate, c.rate)
		}
		for i, horizon := range RateHorizons {
			want := at.Smoothed[i] * math.Exp(-max(0, c.since).Seconds()/horizon)
			if math.Abs(v.Smoothed[i]-want) > 1e-9 {
				t.Errorf("%v after the last arrival the rate over %v s is %v, want %v", c.since, horizon, v.Smoothed[i], want)
			}
		}
	}
	if l.View(last, &v); v.Rate != at.Rate || v.Smoothed != at.Smoothed {
		t.Errorf("a look has changed the rates from %v %v to %v %v", at.Rate, at.Smoothed, v.Rate, v.Smoothed)
	}
}
