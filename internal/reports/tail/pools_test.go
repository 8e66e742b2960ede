package tail

import (
	"math"
	"slices"
	"testing"
	"time"

	"gearshift/internal/reports"
	"gearshift/router/placement/replicas"
	"gearshift/workloads"
)

// recurring draws two days whose spikes come each day, after one of history.
func recurring(t *testing.T, seed uint64) *workloads.Series {
	t.Helper()
	s, err := workloads.Days{
		Day: workloads.DailyRates(), Scale: 100, Drawn: 2, Before: 1, DayFactor: 0.1, Noise: 0.03, NoiseHolds: 20 * time.Minute,
		Daily: 2, DailyJitter: 2 * time.Minute, Lowest: 1.2, Highest: 1.6, Shortest: 10 * time.Minute, Longest: 30 * time.Minute, Steep: 5 * time.Minute, Seed: seed,
	}.Draw()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestForecastsKeepPeaksFree: on drawn days whose spikes recur, replicas by forecasts refuse at peaks less than a
// third of what reactive ones with as many replica-hours refuse.
func TestForecastsKeepPeaksFree(t *testing.T) {
	var list []*workloads.Series
	for _, seed := range workloads.Seeds(workloads.Validation, 4) {
		list = append(list, recurring(t, seed))
	}
	f := scaledBy(10 * time.Minute)
	mean := func(by counting) outcome {
		_, o, err := f.playAll(list, by)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	reactive := mean(f.reactive(0.725, 0, 15*time.Second, time.Minute))
	forecast := mean(f.forecast(0.8, 0.825, time.Minute, true))
	if reactive.atPeaks < 1e-4 || forecast.atPeaks > reactive.atPeaks/3 || forecast.hours > reactive.hours {
		t.Errorf("reactive %+v, by forecasts %+v", reactive, forecast)
	}
}

// TestTuningRespectsItsBounds: the reactive scaler stays within the errors, and that by forecasts within its
// replica-hours.
func TestTuningRespectsItsBounds(t *testing.T) {
	x := tuning{scaledBy(10 * time.Minute), &reports.Run{}, []*workloads.Series{recurring(t, workloads.Seed(workloads.Training, 1))}}
	reactive, forecast, err := x.tune(t.Context(), x.reactives()[:2], x.forecasts(true)[:2], 0.002)
	if err != nil {
		t.Fatal(err)
	}
	if reactive.refused > 0.002 || forecast.hours > reactive.hours {
		t.Errorf("%s: %+v; %s: %+v", reactive.name, reactive, forecast.name, forecast)
	}
	x.warmUp = 0
	if reactive, forecast, err = x.tune(t.Context(), x.reactives()[:1], x.forecasts(true)[5:], 0.1); err != nil || forecast.hours < reactive.hours {
		t.Errorf("without a warm-up reactive replicas take %+v, those with the widest margin %+v, the error is %v", reactive, forecast, err)
	}
	if _, _, err := x.tune(t.Context(), x.reactives()[:1], x.forecasts(true), -1); err == nil {
		t.Error("errors below 0 are met")
	}
}

// steady is a time of so many examples a second.
func steady(each float64, minutes int) *workloads.Series {
	return &workloads.Series{Rates: slices.Repeat([]float64{each}, minutes), Arrivals: slices.Repeat([]float64{each}, 60*minutes)}
}

// byTime counts replicas by the time alone.
type byTime func(now time.Duration) int

// Desired implements [replicas.Scaler].
func (f byTime) Desired(now time.Duration, _ float64, _ int) int { return f(now) }

// TestReplicasWarmUp: with half of what is needed, half is refused until others are warm, but for what waits; they
// are paid for meanwhile.
func TestReplicasWarmUp(t *testing.T) {
	f := scaled{capacity: 5, warmUp: 9 * time.Minute, period: 15 * time.Second}
	r, err := f.play(steady(7, 60), byTime(func(now time.Duration) int { // which begins with two
		if now == 15*time.Second {
			return 1
		}
		return 2
	}))
	if err != nil {
		t.Fatal(err)
	}
	// One replica answers 5 from 15 s on, and another is started at 30 s; 5 wait.
	if want := (555.*2 - 5) / (7 * 3600); math.Abs(r.refused-want) > 1e-12 || r.starts != 1 {
		t.Errorf("%v refused with %d starts, want %v with 1", r.refused, r.starts, want)
	}
	if want := (2*3600. - 15) / 3600; math.Abs(r.hours-want) > 1e-9 || r.counts[0] != 1.75 || r.counts[59] != 2 {
		t.Errorf("%v replica-hours, want %v; counts %v", r.hours, want, r.counts)
	}
}

// TestALoadIsNotStopped: a replica that is no longer wanted is unloaded once it is up, and one that is wanted again
// is not started twice.
func TestALoadIsNotStopped(t *testing.T) {
	f := scaled{capacity: 10, warmUp: 5 * time.Minute, period: time.Minute}
	by := []int{0, 4, 1, 2, 2}
	r, err := f.play(steady(7, 60), byTime(func(now time.Duration) int { return by[min(4, int(now/time.Minute))] }))
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{1, 4, 4, 4, 4, 4, 2}; r.refused != 0 || r.starts != 3 || !slices.Equal(r.counts[:len(want)], want) {
		t.Errorf("%v refused, %d starts, counts %v, want %v", r.refused, r.starts, r.counts[:9], want)
	}
}

func TestAScalerThatCannotBe(t *testing.T) {
	_, _, err := scaledBy(0).playAll([]*workloads.Series{steady(1, 1)}, counting{scaler: func(*workloads.Series) (replicas.Scaler, error) {
		return replicas.NewPlanner(replicas.Plan{})
	}})
	if err == nil {
		t.Error("a planner without a plan plays")
	}
}

// TestComputeDividesTraffic: by hosts the smaller tier is overloaded; what is corrected ends even, also after half of
// a tier has gone, whatever two routers begin with.
func TestComputeDividesTraffic(t *testing.T) {
	const load = 1500 // of 1,900 that both answer
	series := steady(load, 60*60)
	play := func(routers ...divider) (*pools, [][]float64) {
		p, shares, err := divide(series, division{routers: routers})
		if err != nil {
			t.Fatal(err)
		}
		return p, shares
	}
	byHosts, _ := play(divider{part: 1, shares: []float64{0.5, 0.5}})
	if got, want := byHosts.minute(1, 100).Refused, 60*(load/2-550.); math.Abs(got-want) > 1e-6 {
		t.Errorf("by hosts %v are refused in a minute, want %v", got, want)
	}
	p, shares := play(divider{part: 0.5, shares: []float64{0.8, 0.2}, corrected: true}, divider{part: 0.5, shares: []float64{0.4, 0.6}, corrected: true})
	for minute, want := range map[int]float64{1000: load / 1900., 38 * 60: load / 1625., 3500: load / 1900.} {
		for tier := range p.list {
			if u := p.minute(tier, minute).Used / 60; math.Abs(u-want) > 0.001 {
				t.Errorf("minute %d: tier %d is %.3f busy, want %.3f", minute, tier, u, want)
			}
		}
		if early, late := shares[0][minute-10], shares[0][minute]; math.Abs(early-late) > 1e-4 {
			t.Errorf("minute %d: a share still moves from %.4f to %.4f", minute, early, late)
		}
	}
	if u := p.minute(1, 36*60).Used / 60; u < 0.99 {
		t.Errorf("after the loss the second tier is %.3f busy", u)
	}
	if _, _, err := divide(series, division{routers: []divider{{part: 1, shares: []float64{0.5, 0.6}, corrected: true}}}); err == nil {
		t.Error("shares that add up to 1.1 are corrected")
	}
}
