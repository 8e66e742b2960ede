package workloads_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/workloads"
)

// drawing is series of the recorded day, with spikes that come each day.
func drawing(seed uint64) workloads.Days {
	return workloads.Days{
		Day: workloads.DailyRates(), Scale: 100, Drawn: 2, Before: 1, DayFactor: 0.1, Noise: 0.03, NoiseHolds: 20 * time.Minute,
		Daily: 2, DailyJitter: 2 * time.Minute, Lowest: 1.2, Highest: 1.6, Shortest: 10 * time.Minute, Longest: 30 * time.Minute, Steep: 5 * time.Minute, Seed: seed,
	}
}

func draw(t *testing.T, d workloads.Days) *workloads.Series {
	t.Helper()
	s, err := d.Draw()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSeriesAreDrawnAsDescribed: the same seed gives the same series; its mean is the recorded
// day's, scaled; a spike that recurs stands at its time on each day.
func TestSeriesAreDrawnAsDescribed(t *testing.T) {
	d := drawing(7)
	d.Drawn, d.Before = 3, 1
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

func TestBadDays(t *testing.T) {
	for want, change := range map[string]func(*workloads.Days){
		"a day of 7 rates":               func(d *workloads.Days) { d.Day = d.Day[:7] },
		"a scale of 0":                   func(d *workloads.Days) { d.Scale = 0 },
		"0 days after 1":                 func(d *workloads.Days) { d.Drawn = 0 },
		"deviations of -1":               func(d *workloads.Days) { d.DayFactor = -1 },
		"noise that holds 0s":            func(d *workloads.Days) { d.NoiseHolds = 0 },
		"-1 daily spikes":                func(d *workloads.Days) { d.Daily = -1 },
		"spikes of 0.5 to 1.6 and 10m0s": func(d *workloads.Days) { d.Lowest = 0.5 },
	} {
		d := drawing(1)
		change(&d)
		if _, err := d.Draw(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
