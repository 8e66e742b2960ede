package fit

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// This file finds the law by which engines that share a device slow each other:
// not at all, in proportion to the work that the others do, or by taking turns. It compares
// steps next to busy neighbours with the same steps alone, so that it depends on no latency
// model.

// Cell is a step of an engine, alone and next to busy neighbours. Times are in ms.
type Cell struct {
	Name, Engine string
	// Alone is what the step takes alone, Device the device's part of it, and Beside what
	// the step takes next to the neighbours.
	Alone, Device, Beside float64
	// Work is the sum over the neighbours of the share of the time in which they would load
	// the device if each had it for itself; Waiting is the same with the time in which they
	// wait for the device.
	Work, Waiting float64
}

// The laws, by name.
const (
	None    = "none"
	Linear  = "1 + γ·duty"
	Slicing = "time slicing"
)

// ContentionLaw is one of the laws, fitted to cells.
type ContentionLaw struct {
	Name string `yaml:"law"`
	// Gamma is γ of the linear law, and Interval its 90 % interval; 0 for the others.
	Gamma    float64   `yaml:"gamma,omitempty"`
	Interval *Interval `yaml:"gamma_90,omitempty,flow"`
	// Off is over the cells.
	Off `yaml:",inline"`
	// RMS is the root of the mean squared error of the times' logarithm.
	RMS float64 `yaml:"rms"`
}

// ContentionVerdict compares the laws.
type ContentionVerdict struct {
	Cells int
	// Laws, the one that fits best first.
	Laws []ContentionLaw
	// Undecided lists laws that fit about as well as the first one.
	Undecided []string
}

const (
	// Fewest cells that the laws are told apart by.
	FewestCells = 3
	// Misfit is the median error above which a law does not fit.
	ContentionMisfit = 0.10
	// noise is the least relative error that a cell is believed to have.
	noise = 0.005
	// alike is how many times the best law's RMS another may have and still be no worse.
	alike = 1.2
	// mostGamma bounds the search; above it one neighbour would slow a step thirtyfold.
	mostGamma = 30
	resamples = 200
)

// Best returns the law that fits best.
func (v *ContentionVerdict) Best() *ContentionLaw { return &v.Laws[0] }

// Fits reports whether the best law explains the cells.
func (v *ContentionVerdict) Fits() bool { return v.Best().Median <= ContentionMisfit }

// JudgeContention fits each law to the cells. A law with a parameter has to be better than one without
// by more than the parameter alone brings.
func JudgeContention(cells []Cell, seed uint64) (*ContentionVerdict, error) {
	if len(cells) < FewestCells {
		return nil, fmt.Errorf("%d loads beside busy neighbours are too few to tell laws of contention apart; at least %d are needed", len(cells), FewestCells)
	}
	for _, c := range cells {
		if !(c.Alone > 0 && c.Beside > 0 && c.Device >= 0 && c.Device <= c.Alone && c.Work >= 0 && c.Waiting >= 0) {
			return nil, fmt.Errorf("load %s of %s: want times above 0, a device's part within the step, and duties of at least 0; got %+v", c.Name, c.Engine, c)
		}
	}
	v := &ContentionVerdict{Cells: len(cells)}
	linear := judged(Linear, cells, Gamma(cells))
	linear.Interval = interval(cells, seed)
	v.Laws = []ContentionLaw{judged(None, cells, 0), judged(Slicing, cells, 0), linear}
	slices.SortStableFunc(v.Laws, func(a, b ContentionLaw) int { return cmp.Compare(a.score(len(cells)), b.score(len(cells))) })
	for _, l := range v.Laws[1:] {
		if l.rms() <= alike*v.Best().rms() {
			v.Undecided = append(v.Undecided, l.Name)
		}
	}
	return v, nil
}

// Interference returns the factor by which the law slows the device's part of a step.
func (l *ContentionLaw) Interference(work, waiting float64) float64 {
	switch l.Name {
	case Linear:
		return 1 + l.Gamma*work
	case Slicing:
		return 1 + waiting
	}
	return 1
}

func (l *ContentionLaw) predict(c *Cell) float64 {
	return c.Alone + c.Device*(l.Interference(c.Work, c.Waiting)-1)
}

func (l *ContentionLaw) rms() float64 { return math.Hypot(l.RMS, noise) }

// score is Akaike's criterion for errors of an unknown size: lower is better.
func (l *ContentionLaw) score(cells int) float64 {
	parameters := 0.
	if l.Name == Linear {
		parameters = 1
	}
	return 2*float64(cells)*math.Log(l.rms()) + 2*parameters
}

// judged returns a law with its errors.
func judged(name string, cells []Cell, gamma float64) ContentionLaw {
	l := ContentionLaw{Name: name, Gamma: gamma}
	squares := 0.
	l.Off = OffBy(len(cells), func(i int) (string, float64) {
		c := &cells[i]
		ratio := l.predict(c) / c.Beside
		squares += math.Log(ratio) * math.Log(ratio)
		return c.Engine + ", " + c.Name, ratio - 1
	})
	l.RMS = math.Sqrt(squares / float64(len(cells)))
	return l
}

// Gamma returns the γ of least squares of the times' logarithm, at least 0. The sum of squares
// has one minimum where cells agree on the direction; a coarse scan finds it where they do not.
func Gamma(cells []Cell) float64 {
	loss := func(gamma float64) (sum float64) {
		l := ContentionLaw{Name: Linear, Gamma: gamma}
		for i := range cells {
			e := math.Log(l.predict(&cells[i]) / cells[i].Beside)
			sum += e * e
		}
		return sum
	}
	const points = 60
	at := func(i int) float64 { return mostGamma * math.Pow(float64(i)/points, 3) } // closer near 0
	best := 0
	for i := range points + 1 {
		if loss(at(i)) < loss(at(best)) {
			best = i
		}
	}
	return golden(loss, at(max(0, best-1)), at(min(points, best+1)))
}

// golden returns the minimum of a function between two points, by golden sections; an end that is
// no worse is preferred, so that a law without contention has a γ of exactly 0.
func golden(f func(float64) float64, low, high float64) float64 {
	section := (math.Sqrt(5) - 1) / 2
	from, to := low, high
	for range 60 {
		a, b := to-section*(to-from), from+section*(to-from)
		if f(a) <= f(b) {
			to = b
		} else {
			from = a
		}
	}
	x := (from + to) / 2
	for _, end := range []float64{low, high} {
		if f(end) <= f(x) {
			x = end
		}
	}
	return x
}

// interval is γ's of 90 %, by resampled cells.
func interval(cells []Cell, seed uint64) *Interval {
	random := rand.New(rand.NewPCG(seed, 3))
	drawn, again := make([]float64, resamples), make([]Cell, len(cells))
	for i := range drawn {
		for k := range again {
			again[k] = cells[random.IntN(len(cells))]
		}
		drawn[i] = Gamma(again)
	}
	return &Interval{Low: Quantile(drawn, 0.05), High: Quantile(drawn, 0.95)}
}
