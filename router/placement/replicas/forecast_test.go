package replicas_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gearshift/router/placement/replicas"
)

// small is a day of 96 intervals.
var small = replicas.Forecast{Season: 96, Seasons: 3, Smooth: 1, Level: 12, Recent: 3, Trend: 3, Ahead: 4}

func newForecaster(t *testing.T) *replicas.Forecaster {
	t.Helper()
	f, err := replicas.NewForecaster(small)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wave is a day's load.
func wave(i int) float64 { return 100 - 50*math.Cos(2*math.Pi*float64(i)/96) }

// TestADayIsExpectedAgain: after one day each time of the next is expected as it was, up to two
// hours ahead, and on a day of a fifth more load by as much more.
func TestADayIsExpectedAgain(t *testing.T) {
	f := newForecaster(t)
	for i := range 96 {
		f.Observe(wave(i))
	}
	for i := range 96 {
		f.Observe(1.2 * wave(i))
		if i < 12 || i > 85 {
			continue // it learns today's level, or looks at the day after
		}
		for ahead := 1; ahead <= 8; ahead++ {
			got, want := f.Expect(ahead), 1.2*wave(i+ahead)
			if math.Abs(got/want-1) > 0.01 {
				t.Fatalf("interval %d: %.2f expected %d ahead, want %.2f within 1 %%", i, got, ahead, want)
			}
		}
	}
}

// TestTheFirstDayFollowsTheLoad: without a day before, the load that there is is expected, and
// not less after a rise than before it.
func TestTheFirstDayFollowsTheLoad(t *testing.T) {
	f := newForecaster(t)
	if got := f.Expect(1); got != 0 {
		t.Errorf("%v expected before any load", got)
	}
	for range 30 {
		f.Observe(50)
	}
	for i := 30; i < 96*2; i++ {
		for ahead := 1; ahead < 9; ahead++ {
			if got := f.Expect(ahead); math.Abs(got-50) > 0.5 {
				t.Fatalf("interval %d: %.2f expected %d ahead, of a steady load of 50", i, got, ahead)
			}
		}
		f.Observe(50)
	}
}

// TestWhatLastsIsLearned: of noise that loses its memory between two intervals nothing is
// expected to last; of noise that keeps it, most.
func TestWhatLastsIsLearned(t *testing.T) {
	part := func(keep float64) float64 {
		f, random, noise := newForecaster(t), rand.New(rand.NewPCG(1, 2)), 0.0
		for i := range 96 * 10 {
			noise = keep*noise + math.Sqrt(1-keep*keep)*0.1*random.NormFloat64()
			f.Observe(wave(i) * math.Exp(noise))
		}
		before := f.Expect(small.Ahead)
		for i := range 3 {
			f.Observe(1.3 * wave(96*10+i))
		}
		return f.Expect(small.Ahead)/wave(96*10+2+small.Ahead)*wave(96*10-1+small.Ahead)/before - 1
	}
	if fades, lasts := part(0), part(0.97); fades > 0.15 || lasts < fades+0.1 {
		t.Errorf("of a surplus of .3, %.3f is expected where noise fades and %.3f where it lasts", fades, lasts)
	}
}

// TestMarginCoversErrors: the margin of .9 is exceeded in a tenth of the intervals.
func TestMarginCoversErrors(t *testing.T) {
	f, random := newForecaster(t), rand.New(rand.NewPCG(3, 4))
	over, n := 0, 0
	var waiting []float64
	for i := range 96 * 30 {
		rate := wave(i) * math.Exp(0.1*random.NormFloat64())
		if len(waiting) == small.Ahead {
			if i >= 96*4 {
				n++
				if rate > waiting[0] {
					over++
				}
			}
			waiting = waiting[1:]
		}
		f.Observe(rate)
		waiting = append(waiting, f.Expect(small.Ahead)*f.Margin(0.9))
	}
	if part := float64(over) / float64(n); math.Abs(part-0.1) > 0.02 {
		t.Errorf("%.3f of the intervals exceed the margin, want .1", part)
	}
}

// TestALoadOfNothing: no load, and a load after none, give numbers.
func TestALoadOfNothing(t *testing.T) {
	f := newForecaster(t)
	for i := range 96 * 2 {
		f.Observe(float64(i % 2 * (i / 96)))
		if x := f.Expect(3) * f.Margin(0.95); math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			t.Fatalf("interval %d: %v is expected", i, x)
		}
	}
	f.Observe(-5)
	if f.Known() != 193 {
		t.Errorf("%d intervals are known", f.Known())
	}
}

func TestBadForecasts(t *testing.T) {
	for want, change := range map[string]func(*replicas.Forecast){
		"a season of 0":                     func(c *replicas.Forecast) { *c = replicas.Forecast{} },
		"0 seasons":                         func(c *replicas.Forecast) { c.Seasons = 0 },
		"smoothed over -1":                  func(c *replicas.Forecast) { c.Smooth = -1 },
		"compared over 0, 3 and 3":          func(c *replicas.Forecast) { c.Level = 0 },
		"errors 0 intervals ahead":          func(c *replicas.Forecast) { c.Ahead = 0 },
		"95 intervals ahead, compared over": func(c *replicas.Forecast) { c.Ahead = 95 },
	} {
		c := small
		change(&c)
		if _, err := replicas.NewForecaster(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
