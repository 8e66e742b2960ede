// Package steady fits the latency model of an engine to samples taken under
// controlled loads: what a decode step of so many sequences and so much context
// takes, and the first token of a prompt, alone and next to busy neighbours. Such
// samples distinguish the parameters far better than a log of requests does.
package steady

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/env/fit"
	"gearshift/router/profile"
)

// Options of a fit.
type Options struct {
	// Resamples are the refits that intervals come from; 0 for none.
	Resamples int
	// Seed of the resampling.
	Seed uint64
	// Absent lists keys of a profile that are no part of the samples' times, such as
	// request_ms where steps were timed within the engine. They are 0 in the fit.
	Absent []string
}

// Fitted is the latency model of an engine, and how well it explains the samples.
type Fitted struct {
	Profile profile.Profile
	// Intervals are of 90 %, by the profile's keys.
	Intervals map[string]fit.Interval
	// Draws are what the refits came to: profiles that explain the samples as well.
	Draws []profile.Profile
	// Held are the keys that the samples do not determine.
	Held  []string
	Cells []Cell
	// Quality is by kind of cells, and Explained the share of the variance of the
	// times' logarithm over all.
	Quality   []Quality
	Explained float64
	// Faults say in words where the model does not fit; empty if it does.
	Faults []string
}

// Quality is how far the model lies from cells of a kind: quantiles of the
// absolute relative error.
type Quality struct {
	Kind    string  `yaml:"kind"`
	Cells   int     `yaml:"cells"`
	R2      float64 `yaml:"r2"`
	fit.Off `yaml:",inline"`
	// BySequences is the median error, signed, of decode steps by their sequences: the
	// model grows evenly with these, and an engine may bend.
	BySequences map[int]float64 `yaml:"by_sequences,omitempty,flow"`
}

const (
	// fewestSteps and fewestFirst are the cells alone that a fit takes.
	fewestSteps, fewestFirst = 3, 2
	// noise is the least relative error that a cell is believed to have: clocks
	// and the machine's other work.
	noise = 0.004
)

// Fit fits the model to samples: to the means of each load, which are what it is to
// predict. A median forgets the machine's bad moments, and of a load that takes the one
// time or the other, next to neighbours with fewer processors than engines, it is either.
func Fit(samples []Sample, o Options) (*Fitted, error) {
	cells := cellsOf(samples)
	kinds := map[string]int{}
	for i := range cells {
		kinds[cells[i].Kind()]++
	}
	if kinds[Decode] < fewestSteps || kinds[FirstToken] < fewestFirst {
		return nil, fmt.Errorf("too few samples to fit: decode steps under %d loads and first tokens of %d prompt lengths, alone; at least %d and %d are needed",
			kinds[Decode], kinds[FirstToken], fewestSteps, fewestFirst)
	}
	s := &search{cells: cells, centre: believed(cells), fixed: make([]bool, len(names))}
	beside := kinds[DecodeBeside]+kinds[FirstBeside] > 0
	if !beside {
		s.fix(contention)
	}
	if most := slices.MaxFunc(cells, func(a, b Cell) int { return cmp.Compare(a.Neighbours, b.Neighbours) }).Neighbours; most <= 1 {
		s.fix(crowding)
	}
	if kinds[PromptStep] == 0 { // all of a prompt's own is then between it and its first token
		s.fix(prompt)
	}
	for _, key := range o.Absent {
		i := slices.Index(names, key)
		if i < 0 {
			return nil, fmt.Errorf("no parameter %q; there are %v", key, names)
		}
		s.fix(i)
	}
	random := rand.New(rand.NewPCG(o.Seed, 2))
	good := s.converge(random)
	x := good[0].x
	f := &Fitted{Cells: cells}
	f.Profile = profileAt(x)
	f.Intervals, f.Draws = s.intervals(good, o.Resamples, random)
	f.judge()
	f.hold(beside)
	return f, nil
}

// fix has a parameter be zero.
func (s *search) fix(parameter int) { s.fixed[parameter], s.centre[parameter] = true, math.Inf(-1) }

// converge finds the parameters, the best first and others as good after it. Cells
// weigh by how their samples scatter, not by what the model leaves unexplained of
// them: it might else give a kind of cells up.
func (s *search) converge(random *rand.Rand) []optimum {
	s.target, s.sigma = make([]float64, len(s.cells)), scatter(s.cells)
	for i, c := range s.cells {
		s.target[i] = math.Log(c.MS)
	}
	from := s.start()
	good := []optimum{{x: from}}
	for range 3 {
		starts := s.about(good[0].x, 30, random)
		for _, o := range good[:min(10, len(good))] {
			starts = append(starts, o.x)
		}
		good = s.best(starts)
	}
	return good
}

// scatter returns the relative error that each cell is good for: that of its kind, by how
// far samples lie from the mean of their cell.
func scatter(cells []Cell) []float64 {
	const normal = 1.48 // standard deviation by median absolute error
	out := make([]float64, len(cells))
	for _, kind := range Kinds {
		var off []float64
		for i := range cells {
			if cells[i].Kind() == kind {
				off = append(off, cells[i].scatter...)
			}
		}
		sigma := max(noise, normal*fit.Quantile(off, 0.5))
		if len(off) == 0 {
			sigma = 5 * noise // no sample has a second
		}
		for i := range cells {
			if cells[i].Kind() == kind {
				out[i] = sigma / math.Sqrt(float64(max(1, cells[i].Samples/2)))
			}
		}
	}
	return out
}

// unexplained returns the relative error that the cells of each kind are predicted with,
// taking account of the parameters that went into making it small. It is at least
// their scatter.
func (s *search) unexplained(x []float64) []float64 {
	p := profileAt(x)
	free := 0
	for _, fixed := range s.fixed {
		if !fixed {
			free++
		}
	}
	n := float64(len(s.cells))
	inflate := math.Sqrt(n / max(1, n-float64(free)))
	out := slices.Clone(s.sigma)
	for _, kind := range Kinds {
		var squares, of float64
		for i := range s.cells {
			if c := &s.cells[i]; c.Kind() == kind {
				e := math.Log(predict(&p, &c.Sample)) - s.target[i]
				squares, of = squares+e*e, of+1
			}
		}
		for i := range s.cells {
			if s.cells[i].Kind() == kind {
				out[i] = max(out[i], inflate*math.Sqrt(squares/of))
			}
		}
	}
	return out
}

// intervals refits to the predictions with errors like those found, each time with
// another belief of what the parameters are. So a parameter that the cells do not
// tell gets an interval as wide as what is believed of it. It reaches as far, too, as
// the parameter alone can go before the cells show it.
func (s *search) intervals(good []optimum, resamples int, random *rand.Rand) (map[string]fit.Interval, []profile.Profile) {
	if resamples < 2 {
		return nil, nil
	}
	x := good[0].x
	p := profileAt(x)
	again := *s
	again.target, again.sigma = make([]float64, len(s.cells)), s.unexplained(x)
	found := make([][]float64, len(x))
	var draws []profile.Profile
	for range resamples {
		for i := range s.cells {
			again.target[i] = math.Log(predict(&p, &s.cells[i].Sample)) + again.sigma[i]*random.NormFloat64()
		}
		again.centre = s.believed(random)
		y := again.best([][]float64{x, good[random.IntN(len(good))].x})[0].x
		draws = append(draws, profileAt(y))
		for j, v := range y {
			found[j] = append(found[j], math.Exp(v))
		}
	}
	again.target = s.target
	out := map[string]fit.Interval{}
	for j, values := range found {
		if !s.fixed[j] {
			low, high := math.Exp(again.reach(x, j, -1)), math.Exp(again.reach(x, j, 1))
			out[names[j]] = fit.Interval{Low: min(low, fit.Quantile(values, 0.05)), High: max(high, fit.Quantile(values, 0.95))}
		}
	}
	return out, draws
}

// Widen widens the intervals of contention and crowding for duties of the neighbours that are
// known from low to high only, as multiples of those that were fitted with: what is
// seen is their product.
func (f *Fitted) Widen(low, high float64) {
	for _, name := range []string{names[contention], names[crowding]} {
		if i, ok := f.Intervals[name]; ok && 0 < low && low <= 1 && high >= 1 {
			f.Intervals[name] = fit.Interval{Low: i.Low / high, High: i.High / low}
		}
	}
}

// hold lists what the cells do not determine, and sets a floor that none of them feels
// to zero: a guess would only look like a finding.
func (f *Fitted) hold(beside bool) {
	felt := false
	for i := range f.Cells {
		c := &f.Cells[i]
		felt = felt || f.Profile.GPU(c.Tokens, int(c.Context))*f.Profile.Interference(c.Neighbours) < f.Profile.LaunchFloor
	}
	if !felt {
		f.Profile.LaunchFloor = 0
		if i, ok := f.Intervals[names[floor]]; ok {
			f.Intervals[names[floor]] = fit.Interval{High: i.High}
		}
	}
	if !beside {
		f.Held = append(f.Held, names[contention])
	}
	const wide = 20 // a factor between the ends that says nothing
	for _, name := range names {
		if i, ok := f.Intervals[name]; ok && i.High > wide*i.Low {
			f.Held = append(f.Held, name)
		}
	}
}
