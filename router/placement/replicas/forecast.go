package replicas

import (
	"fmt"
	"math"
	"time"

	"gearshift/internal/faults"
)

// Forecast describes a [Forecaster]. Times are numbers of intervals, each of which has one
// rate.
type Forecast struct {
	// Season is after how long the load repeats: a day.
	Season int
	// Seasons is of how many seasons the mean is expected.
	Seasons int
	// Smooth is over how many intervals to either side the days before are averaged, so that
	// their noise is not expected again.
	Smooth int
	// Level is over how long the load of today is compared with that of the days before.
	Level int
	// Recent is over how long it is compared for what passes sooner, and Trend how long that is
	// compared with what was before.
	Recent, Trend int
	// Ahead is for how far ahead the errors of the past are learned from.
	Ahead int
}

// Daily returns a forecast of loads that repeat each day, from rates of such an interval.
func Daily(interval time.Duration) Forecast {
	of := func(d time.Duration) int { return max(1, int(d/interval)) }
	return Forecast{
		Season: of(24 * time.Hour), Seasons: 7, Smooth: int(2 * time.Minute / interval), Level: of(2 * time.Hour),
		Recent: of(10 * time.Minute), Trend: of(10 * time.Minute),
	}
}

// Validate returns an error that names every wrong number.
func (c Forecast) Validate() error {
	var found faults.List
	found.If(c.Season < 4, "a season of %d intervals; want at least 4", c.Season)
	found.If(c.Seasons < 1, "%d seasons; want at least 1", c.Seasons)
	found.If(c.Smooth < 0, "smoothed over %d intervals to either side; want 0 or more", c.Smooth)
	found.If(c.Level < 1 || c.Recent < 1 || c.Trend < 1, "compared over %d, %d and %d intervals; want at least 1", c.Level, c.Recent, c.Trend)
	found.If(c.Ahead < 1, "errors %d intervals ahead; want at least 1", c.Ahead)
	found.If(c.Ahead+c.Smooth >= c.Season || max(c.Level, c.Recent+c.Trend) > c.Season, "%d intervals ahead, compared over %d, in a season of %d; want less than a season", c.Ahead, max(c.Level, c.Recent+c.Trend), c.Season)
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot forecast: %w", err)
	}
	return nil
}

// Forecaster expects the load of a time to be that of the same time on the days before, times
// how today compares with them. What of that comparison lasts until then, the level, the last
// minutes' part and its trend, it learns from its own errors. Without a whole day behind it it
// compares with nothing, and expects the load that there is.
type Forecaster struct {
	Forecast
	rates    rates
	compared rates     // logarithms of each rate ÷ that of the days before
	waiting  []waiting // a ring of forecasts whose time is yet to come
	lasting  lasting
	errors   quantiles // actual ÷ expected
	early    quantiles // of the time without a day before
	since    int       // when the comparison with days before began; 0 is not yet
}

// waiting is a forecast whose time is yet to come.
type waiting struct {
	level         float64
	recent, trend float64
	rate          float64
}

// NewForecaster returns one that has seen nothing.
func NewForecaster(c Forecast) (*Forecaster, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Forecaster{
		Forecast: c,
		rates:    newRates(c.Season*c.Seasons + c.Smooth + 2),
		compared: newRates(c.Season),
		waiting:  make([]waiting, c.Ahead),
		lasting:  lasting{keep: 1 - 1/float64(c.Season)},
		errors:   newQuantiles(c.Season),
	}, nil
}

// Observe takes the rate of the interval that has just ended.
func (f *Forecaster) Observe(rate float64) {
	rate = max(0, rate)
	n := f.rates.n
	if n == f.Season {
		f.begin()
	}
	slot := &f.waiting[n%len(f.waiting)]
	f.rates.add(rate)
	compared := f.compare(n)
	f.compared.add(compared)
	if n-f.since >= len(f.waiting) {
		f.lasting.learn(slot.recent, slot.trend, compared-slot.level)
		f.errors.add(rate / max(slot.rate, none))
	}
	slot.level, slot.recent, slot.trend = f.now()
	slot.rate = f.Expect(f.Ahead)
}

// begin begins to compare with a day before. What was learned without one does not hold any more;
// only the errors count until there are enough others.
func (f *Forecaster) begin() {
	f.early, f.errors = f.errors, newQuantiles(f.Season)
	f.compared = newRates(f.Season)
	f.lasting = lasting{keep: f.lasting.keep}
	f.since = f.rates.n
}

// none is the rate that stands for a load of nothing where loads are compared.
const none = 1e-3

// compare is how the rate of the interval compares with those of the days before.
func (f *Forecaster) compare(n int) float64 {
	return math.Log(max(f.rates.mean(n, n+1), none) / max(f.past(n), none))
}

// now is how today compares with the days before: over Level, and by how much more than that
// over Recent, and by how much more than before.
func (f *Forecaster) now() (level, recent, trend float64) {
	n := f.compared.n
	level = f.compared.mean(n-f.Level, n)
	last := f.compared.mean(n-f.Recent, n)
	if n <= f.Recent {
		return level, last - level, 0
	}
	return level, last - level, last - f.compared.mean(n-f.Recent-f.Trend, n-f.Recent)
}

// Expect returns the rate that is expected so many intervals after the last, from 1 on.
func (f *Forecaster) Expect(ahead int) float64 {
	if f.rates.n == 0 {
		return 0
	}
	level, recent, trend := f.now()
	fades := math.Exp(-float64(max(0, ahead-f.Ahead)) / float64(f.Level))
	return math.Exp(level+fades*f.lasting.expect(recent, trend)) * f.past(f.rates.n+ahead-1)
}

// past is the mean load of the same time on the days before, smoothed; always 1 until a whole day
// is known, so that all comparisons until then are with the same.
func (f *Forecaster) past(n int) float64 {
	if f.since == 0 {
		return 1
	}
	sum, days := 0.0, 0
	for day := 1; day <= f.Seasons; day++ {
		at := n - day*f.Season
		if at < f.rates.first() || at < 0 {
			break
		}
		sum += f.rates.mean(at-f.Smooth, at+f.Smooth+1)
		days++
	}
	return sum / float64(days)
}

// Margin returns by which factor the load exceeded what was expected of it [Forecast.Ahead]
// intervals before, in all but a share 1−q of the last day's intervals; 1 while nothing is known.
func (f *Forecaster) Margin(q float64) float64 {
	x := f.errors.at(q)
	if len(f.errors.last) < f.Level {
		x = max(x, f.early.at(q))
	}
	if x <= 0 {
		return 1
	}
	return x
}

// History returns the rates that are remembered, the earliest first.
func (f *Forecaster) History() (list []float64) {
	for n := f.rates.first(); n < f.rates.n; n++ {
		list = append(list, f.rates.mean(n, n+1))
	}
	return list
}

// Known returns of how many intervals the load has been observed.
func (f *Forecaster) Known() int { return f.rates.n }
