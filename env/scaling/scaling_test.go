package scaling_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env/scaling"
	"gearshift/router/placement/replicas"
	"gearshift/workloads"
	"gearshift/workloads/daily"
)

// drawing is series of the recorded day, with spikes that come each day.
func drawing(seed uint64) scaling.Drawing {
	return scaling.Drawing{
		Day: daily.Rates(), Scale: 100, Days: 2, Before: 1, DayFactor: 0.1, Noise: 0.03, NoiseHolds: 20 * time.Minute,
		Daily: 2, DailyJitter: 2 * time.Minute, Lowest: 1.2, Highest: 1.6, Shortest: 10 * time.Minute, Longest: 30 * time.Minute, Steep: 5 * time.Minute, Seed: seed,
	}
}

func draw(t *testing.T, d scaling.Drawing) *scaling.Series {
	t.Helper()
	s, err := d.Draw()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var fleet = scaling.Fleet{Capacity: 25, WarmUp: 10 * time.Minute, Period: 15 * time.Second, Patience: time.Second, Peak: 0.9}

// TestForecastsKeepPeaksFree: on drawn days whose spikes recur, replicas by forecasts refuse at
// peaks less than a third of what reactive ones with as many replica-hours refuse.
func TestForecastsKeepPeaksFree(t *testing.T) {
	var list []*scaling.Series
	for _, seed := range workloads.Seeds(workloads.Validation, 4) {
		list = append(list, draw(t, drawing(seed)))
	}
	outcome := func(p scaling.Policy) scaling.Outcome {
		results, err := fleet.Play(list, p)
		if err != nil {
			t.Fatal(err)
		}
		return scaling.Mean(results)
	}
	reactive := outcome(fleet.Reactive(0.725, 0, 15*time.Second, time.Minute))
	forecast := outcome(fleet.Forecast(0.8, 0.825, time.Minute, true))
	if reactive.PeakErrors < 1e-4 || forecast.PeakErrors > reactive.PeakErrors/3 || forecast.ReplicaHours > reactive.ReplicaHours {
		t.Errorf("reactive %+v, by forecasts %+v", reactive, forecast)
	}
}

// TestTuningRespectsItsBounds: the reactive policy stays within the errors, and that by forecasts
// within its replica-hours.
func TestTuningRespectsItsBounds(t *testing.T) {
	list := []*scaling.Series{draw(t, drawing(workloads.Seed(workloads.Training, 1)))}
	x, err := fleet.Tune(t.Context(), list, fleet.Reactives()[:2], fleet.Forecasts(true)[:2], 0.002)
	if err != nil {
		t.Fatal(err)
	}
	if x.OnReactive.Errors > 0.002 || x.OnForecast.ReplicaHours > x.OnReactive.ReplicaHours {
		t.Errorf("%s: %+v; %s: %+v", x.Reactive.Name, x.OnReactive, x.Forecast.Name, x.OnForecast)
	}
	instant := scaling.Fleet{Capacity: 25, Period: 15 * time.Second, Patience: time.Second, Peak: 0.9}
	if x, err = instant.Tune(t.Context(), list, instant.Reactives()[:1], instant.Forecasts(true)[5:], 0.1); err != nil || x.OnForecast.ReplicaHours < x.OnReactive.ReplicaHours {
		t.Errorf("without a warm-up reactive replicas take %+v, those with the widest margin %+v, the error is %v", x.OnReactive, x.OnForecast, err)
	}
	if _, err := fleet.Tune(t.Context(), list, fleet.Reactives()[:1], fleet.Forecasts(true), -1); err == nil {
		t.Error("errors below 0 are met")
	}
}

// fixed wants the same number from some time on.
type fixed struct {
	from time.Duration
	n    int
}

func (f fixed) Desired(now time.Duration, _ float64, have int) int {
	if now >= f.from {
		return f.n
	}
	return have
}

// steady is an hour of ten examples a second.
func steady() *scaling.Series {
	s := &scaling.Series{}
	for range 60 {
		s.Rates = append(s.Rates, 10)
		for range 60 {
			s.Arrivals = append(s.Arrivals, 10)
		}
	}
	return s
}

// TestReplicasWarmUp: with half of what is needed, half is refused until others are warm, but for
// what waits; they are paid for meanwhile.
func TestReplicasWarmUp(t *testing.T) {
	c := &scaling.Config{Series: steady(), Scaler: fixed{from: time.Minute, n: 2}, Capacity: 5, WarmUp: 9 * time.Minute, Period: 15 * time.Second, Patience: 2 * time.Second, Start: 1}
	r, err := scaling.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if want := 600.*5 - 10; r.Refused != want || r.Starts != 1 || r.Examples != 36000 {
		t.Errorf("%v of %v refused with %d starts, want %v of 36000 with 1", r.Refused, r.Examples, r.Starts, want)
	}
	if want := (60. + 2*59*60) / 3600; math.Abs(r.ReplicaHours-want) > 1e-9 {
		t.Errorf("%v replica-hours, want %v", r.ReplicaHours, want)
	}
	if len(r.Counts) != 60 || r.Counts[0] != 2 || r.RefusedBy[0] != 290 || r.RefusedBy[59] != 0 {
		t.Errorf("counts %v, refused %v", r.Counts, r.RefusedBy)
	}
}

// TestReplicasThatStartEndFirst: a wish for fewer ends those that are not up yet.
func TestReplicasThatStartEndFirst(t *testing.T) {
	up := &upAndDown{}
	r, err := scaling.Run(&scaling.Config{Series: steady(), Scaler: up, Capacity: 10, WarmUp: 5 * time.Minute, Period: time.Minute, Start: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Refused != 0 || r.Counts[0] != 4 || r.Counts[1] != 1 {
		t.Errorf("%v refused, counts %v", r.Refused, r.Counts[:3])
	}
}

// upAndDown wants four replicas and one in turn.
type upAndDown struct{ calls int }

func (u *upAndDown) Desired(time.Duration, float64, int) int {
	u.calls++
	return 1 + 3*(u.calls%2)
}

// TestSeriesAreDrawnAsDescribed: the same seed gives the same series; its mean is the recorded
// day's, scaled; a spike that recurs stands at its time on each day.
func TestSeriesAreDrawnAsDescribed(t *testing.T) {
	d := drawing(7)
	d.Days, d.Before = 3, 1
	a, b := draw(t, d), draw(t, d)
	if !slices.Equal(a.Arrivals, b.Arrivals) || len(a.Arrivals) != 3*86400 || len(a.History) != 1440 {
		t.Fatalf("%d arrivals after a history of %d, the same twice: %v", len(a.Arrivals), len(a.History), slices.Equal(a.Arrivals, b.Arrivals))
	}
	d.DayFactor, d.Noise, d.Daily = 0, 0, 0
	plain := draw(t, d)
	sum := 0.0
	for _, x := range plain.Arrivals {
		sum += x
	}
	if mean := sum / float64(len(plain.Arrivals)); math.Abs(mean/947.5-1) > 0.01 {
		t.Errorf("a mean of %.1f examples/s, want 947.5", mean)
	}
	d.Daily, d.Lowest, d.Highest, d.DailyJitter = 1, 1.5, 1.5, 0
	spiked := draw(t, d)
	for i := range 1440 {
		first, last := spiked.Rates[i]/plain.Rates[i], spiked.Rates[2880+i]/plain.Rates[2880+i]
		if i < 1380 && math.Abs(first-last) > 1e-9 {
			t.Fatalf("minute %d: raised by %.3f on the first day and %.3f on the third", i, first, last)
		}
	}
	if top := slices.Max(spiked.Rates) / slices.Max(plain.Rates); top < 0.99 {
		t.Errorf("the highest rate is %.2f of the one without spikes", top)
	}
}

func TestBadInput(t *testing.T) {
	for want, change := range map[string]func(*scaling.Drawing){
		"a day of 7 rates":               func(d *scaling.Drawing) { d.Day = d.Day[:7] },
		"a scale of 0":                   func(d *scaling.Drawing) { d.Scale = 0 },
		"0 days after 1":                 func(d *scaling.Drawing) { d.Days = 0 },
		"deviations of -1":               func(d *scaling.Drawing) { d.DayFactor = -1 },
		"noise that holds 0s":            func(d *scaling.Drawing) { d.NoiseHolds = 0 },
		"-1 daily spikes":                func(d *scaling.Drawing) { d.Daily = -1 },
		"spikes of 0.5 to 1.6 and 10m0s": func(d *scaling.Drawing) { d.Lowest = 0.5 },
	} {
		d := drawing(1)
		change(&d)
		if _, err := d.Draw(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	_, err := scaling.Run(&scaling.Config{Peak: 1, Start: -1, WarmUp: -1})
	for _, want := range []string{"no arrivals", "nothing says", "a capacity of 0", "a warm-up of -1ns", "a period of 0s", "-1 replicas", "peaks from a share of 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	if _, err := fleet.Play([]*scaling.Series{steady()}, scaling.Policy{New: func(*scaling.Series) (replicas.Scaler, error) {
		return replicas.NewPlanner(replicas.Plan{})
	}}); err == nil {
		t.Error("a planner without a plan plays")
	}
}
