package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gearshift/internal/faults"
	"gearshift/internal/splitmix"
)

// minutes counts those of a day.
const minutes = 24 * 60

// Days describes series that are drawn around one recorded day.
type Days struct {
	// Day is the recorded rates, of equal parts of a day; Scale multiplies them.
	Day   []float64
	Scale float64
	// Drawn counts the days that are drawn, and Before those before them, which are history.
	Drawn, Before int
	// DayFactor is the deviation of the logarithm of the factors by which days differ. From one
	// noon to the next a factor turns into the other.
	DayFactor float64
	// Noise is the deviation of the logarithm of a further factor, which loses its memory over
	// NoiseHolds.
	Noise      float64
	NoiseHolds time.Duration
	// Daily is how many spikes come at the same time of each day, give or take DailyJitter, and
	// Single how many come once, in a day in the mean.
	Daily       int
	Single      float64
	DailyJitter time.Duration
	// Highest and Lowest bound by which factor a spike raises the load, Longest and Shortest how
	// long it lasts; each is drawn evenly. It rises and falls within Steep.
	Lowest, Highest   float64
	Shortest, Longest time.Duration
	Steep             time.Duration
	Seed              uint64
}

// Series is the load of some days.
type Series struct {
	// History is the rates of the minutes before.
	History []float64
	// Rates is the rates that the minutes have in the mean.
	Rates []float64
	// Arrivals is the examples that arrive in each second.
	Arrivals []float64
}

// Draw draws a series. The same drawing gives the same series.
func (d Days) Draw() (*Series, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(splitmix.Mix(d.Seed), 53))
	days := d.Before + d.Drawn
	rates := make([]float64, days*minutes)
	for i := range rates {
		rates[i] = d.recorded(i%minutes) * d.Scale
	}
	d.vary(rates, days, random)
	d.spike(rates, days, random)
	before := d.Before * minutes
	s := &Series{Rates: rates[before:]}
	for _, rate := range rates[:before] {
		s.History = append(s.History, poisson(rate*60, random)/60)
	}
	for _, rate := range s.Rates {
		for range 60 {
			s.Arrivals = append(s.Arrivals, poisson(rate, random))
		}
	}
	return s, nil
}

func (d *Days) validate() error {
	var found faults.List
	found.If(len(d.Day) == 0 || minutes%max(1, len(d.Day)) != 0, "a day of %d rates; want a number of which 1,440 is a multiple", len(d.Day))
	found.If(!(d.Scale > 0), "a scale of %v; want more than 0", d.Scale)
	found.If(d.Drawn < 1 || d.Before < 0, "%d days after %d; want 1 at least, and no negative number", d.Drawn, d.Before)
	found.If(d.DayFactor < 0 || d.Noise < 0, "deviations of %v and %v; want none below 0", d.DayFactor, d.Noise)
	found.If(d.Noise > 0 && d.NoiseHolds <= 0, "noise that holds %v; want more than 0", d.NoiseHolds)
	found.If(d.Daily < 0 || d.Single < 0, "%d daily spikes and %v single ones; want none below 0", d.Daily, d.Single)
	found.If(float64(d.Daily)+d.Single > 0 && (d.Lowest < 1 || d.Highest < d.Lowest || d.Shortest <= 0 || d.Longest < d.Shortest || d.Steep < 0),
		"spikes of %v to %v and %v to %v; want factors from 1 on and lengths above 0, the lower first", d.Lowest, d.Highest, d.Shortest, d.Longest)
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot draw a series: %w", err)
	}
	return nil
}

// recorded is the rate of a minute: a line between those in the middle of the parts.
func (d *Days) recorded(minute int) float64 {
	part := float64(minutes) / float64(len(d.Day))
	at := (float64(minute)+0.5)/part - 0.5
	low := math.Floor(at)
	n := len(d.Day)
	a, b := d.Day[(int(low)+n)%n], d.Day[(int(low)+1)%n]
	return a + (at-low)*(b-a)
}

// vary multiplies the rates by the factors of days and noise.
func (d *Days) vary(rates []float64, days int, random *rand.Rand) {
	factors := make([]float64, days+2) // of the noons, the first before midnight
	for i := range factors {
		factors[i] = d.DayFactor * random.NormFloat64()
	}
	keep := 0.0
	if d.NoiseHolds > 0 {
		keep = math.Exp(-float64(time.Minute) / float64(d.NoiseHolds))
	}
	noise := d.Noise * random.NormFloat64()
	for i := range rates {
		at := float64(i)/minutes + 0.5
		low := int(at)
		day := factors[low] + (at-float64(low))*(factors[low+1]-factors[low])
		rates[i] *= math.Exp(day + noise)
		noise = keep*noise + math.Sqrt(1-keep*keep)*d.Noise*random.NormFloat64()
	}
}

// spike raises the rates where there are spikes.
func (d *Days) spike(rates []float64, days int, random *rand.Rand) {
	for range d.Daily {
		minute, height, long := random.Float64()*minutes, d.height(random), d.long(random)
		for day := range days {
			jitter := d.DailyJitter.Minutes() * (2*random.Float64() - 1)
			d.raise(rates, float64(day)*minutes+minute+jitter, height, long)
		}
	}
	for range int(poisson(d.Single*float64(days), random)) {
		d.raise(rates, random.Float64()*float64(days)*minutes, d.height(random), d.long(random))
	}
}

func (d *Days) height(random *rand.Rand) float64 {
	return d.Lowest + random.Float64()*(d.Highest-d.Lowest)
}

// long is how many minutes a spike lasts.
func (d *Days) long(random *rand.Rand) float64 {
	return (d.Shortest + time.Duration(random.Float64()*float64(d.Longest-d.Shortest))).Minutes()
}

// raise has a spike begin at a minute.
func (d *Days) raise(rates []float64, from, height, long float64) {
	steep := max(1, d.Steep.Minutes())
	for i := max(0, int(from)); i < len(rates) && float64(i) < from+long+steep; i++ {
		at := float64(i) + 0.5 - from
		part := min(1, at/steep, (long+steep-at)/steep)
		if part > 0 {
			rates[i] *= 1 + part*(height-1)
		}
	}
}

// poisson draws how many examples arrive where a mean is expected: from the normal distribution
// where that is close.
func poisson(mean float64, random *rand.Rand) float64 {
	if mean > 30 {
		return max(0, math.Round(mean+math.Sqrt(mean)*random.NormFloat64()))
	}
	n, left := 0.0, random.ExpFloat64()
	for left < mean {
		n++
		left += random.ExpFloat64()
	}
	return n
}
