package workloads

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/internal/faults"
)

// JobArrival is a job as it comes.
type JobArrival struct {
	At       time.Duration
	Size     int // requests
	Floor    float64
	Deadline time.Duration // absolute
}

// JobLoad is how jobs come: several requests that come together, with a floor for their mean
// quality and a deadline. It is that of MOSEL (arXiv 2310.18481, section 7): a rate that changes
// over a day and has spikes, and in each second jobs of random sizes until their requests make up
// the rate.
type JobLoad struct {
	// Length is that of the day.
	Length time.Duration
	// Least and Most are the rates between which the day moves, in requests per second.
	Least, Most float64
	// Shape is how the rate moves; "" is a day.
	Shape JobShape
	// Rates, if there are any, are the rates of the seconds, in place of those of the shape.
	Rates []float64
	// Poisson has jobs come one by one, independently of each other; without it, the jobs
	// of a second have as many requests as its rate says.
	Poisson bool
	// Mean and Spread are of the normal distribution that sizes are drawn from; a size is
	// at least 1.
	Mean, Spread float64
	// Largest splits larger jobs; 0 does not.
	Largest int
	// Deadline is from a job's arrival.
	Deadline time.Duration
	// FloorLow and FloorHigh bound the floors, which are uniform between them.
	FloorLow, FloorHigh float64
}

// JobShape is how the rate moves.
type JobShape string

// The shapes. JobsByDay is a wave with noise and spikes; ConstantJobs is Most throughout; SwitchingJobs
// is Least and Most by turns, for times that are drawn (an MMPP, if jobs come one by one).
const (
	JobsByDay     JobShape = "day"
	ConstantJobs  JobShape = "constant"
	SwitchingJobs JobShape = "switching"
)

// Validate names every fault.
func (l *JobLoad) Validate() error {
	var found faults.List
	found.If(l.Shape != "" && l.Shape != JobsByDay && l.Shape != ConstantJobs && l.Shape != SwitchingJobs, "shape: %q; want %q, %q or %q", l.Shape, JobsByDay, ConstantJobs, SwitchingJobs)
	for i, rate := range l.Rates {
		found.If(!(rate >= 0 && rate < 1e6), "rates[%d]: %v: want 0 ≤ rate < 1e6", i, rate)
	}
	found.If(l.Length < time.Second, "length: %v must be at least a second", l.Length)
	found.If(!(l.Least >= 0 && l.Least <= l.Most && l.Most < 1e6), "rates from %v to %v: want 0 ≤ least ≤ most < 1e6", l.Least, l.Most)
	found.If(!(l.Spread >= 0) || math.IsNaN(l.Mean), "sizes of mean %v and spread %v", l.Mean, l.Spread)
	found.If(l.Largest < 0, "largest: %d must not be negative", l.Largest)
	found.If(l.Deadline <= 0, "deadline: %v must be above 0", l.Deadline)
	found.If(!(l.FloorLow <= l.FloorHigh), "floors from %v to %v", l.FloorLow, l.FloorHigh)
	return found.Err()
}

// Draw returns the jobs of a day, by arrival. The same seed draws the same jobs.
func (l *JobLoad) Draw(seed uint64) ([]JobArrival, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("cannot draw jobs: %w", err)
	}
	d := drawing{load: l, sizes: rand.New(rand.NewPCG(seed, 2))}
	rates := l.rates(rand.New(rand.NewPCG(seed, 1)))
	if l.Poisson {
		d.oneByOne(rates)
	} else {
		d.bySecond(rates)
	}
	slices.SortStableFunc(d.all, func(a, b JobArrival) int { return cmp.Compare(a.At, b.At) })
	return d.all, nil
}

// drawing is jobs being drawn.
type drawing struct {
	load  *JobLoad
	sizes *rand.Rand // sizes, times and floors
	all   []JobArrival
}

// bySecond draws jobs until their requests are those of each second's rate.
func (d *drawing) bySecond(rates []float64) {
	var left float64 // of a request, which the next second has
	for second, rate := range rates {
		left += rate
		for left >= 1 {
			size := min(d.load.size(d.sizes), int(left))
			left -= float64(size)
			d.add(size, time.Duration(second)*time.Second+time.Duration(d.sizes.Float64()*float64(time.Second)))
		}
	}
}

// oneByOne draws jobs from a Poisson process with the rates of the seconds.
func (d *drawing) oneByOne(rates []float64) {
	mean := d.load.meanSize()
	for second, rate := range rates {
		for at := d.sizes.ExpFloat64() * mean; at < rate; at += d.sizes.ExpFloat64() * mean {
			d.add(d.load.size(d.sizes), time.Duration((float64(second)+at/rate)*float64(time.Second)))
		}
	}
}

// add adds a job, split where it is larger than may be.
func (d *drawing) add(size int, at time.Duration) {
	l := d.load
	a := JobArrival{At: at, Floor: l.FloorLow + d.sizes.Float64()*(l.FloorHigh-l.FloorLow), Deadline: at + l.Deadline}
	for size > 0 {
		a.Size = size
		if l.Largest > 0 {
			a.Size = min(size, l.Largest)
		}
		size -= a.Size
		d.all = append(d.all, a)
	}
}

// meanSize is that of jobs as they are drawn, before they are split.
func (l *JobLoad) meanSize() float64 {
	rng, sum := rand.New(rand.NewPCG(1, 1)), 0
	const n = 20_000
	for range n {
		sum += l.size(rng)
	}
	return float64(sum) / n
}

func (l *JobLoad) size(rng *rand.Rand) int {
	return max(1, int(math.Round(l.Mean+l.Spread*rng.NormFloat64())))
}

// rates are those of the seconds: a wave of one day, slow noise on it, and some spikes of a
// few seconds to the most. Their least and most are those of the load.
func (l *JobLoad) rates(rng *rand.Rand) []float64 {
	list := make([]float64, int(l.Length/time.Second))
	switch {
	case len(l.Rates) > 0:
		return l.Rates
	case l.Shape == ConstantJobs:
		for i := range list {
			list[i] = l.Most
		}
		return list
	case l.Shape == SwitchingJobs:
		l.switching(list, rng)
		return list
	}
	phase, noise := rng.Float64(), 0.0
	for i := range list {
		day := float64(i) / float64(len(list))
		noise = 0.95*noise + 0.05*rng.NormFloat64()
		list[i] = 0.4 - 0.35*math.Cos(2*math.Pi*(day+phase)) + noise
	}
	for at := spikes(rng); at < len(list); at += spikes(rng) {
		for i := at; i < min(at+2+rng.IntN(6), len(list)); i++ {
			list[i] += 0.3 + 0.7*rng.Float64()
		}
	}
	low, high := slices.Min(list), slices.Max(list)
	for i := range list {
		list[i] = l.Least + (l.Most-l.Least)*(list[i]-low)/max(high-low, 1e-9)
	}
	return list
}

// spikes is the time from one spike to the next, in seconds.
func spikes(rng *rand.Rand) int { return 15 + int(45*rng.ExpFloat64()) }

// switching fills the list with the least and the most rate by turns, for 20 and 5 seconds in
// the mean.
func (l *JobLoad) switching(list []float64, rng *rand.Rand) {
	busy := rng.IntN(5) == 0
	for at := 0; at < len(list); busy = !busy {
		rate, mean := l.Least, 20.0
		if busy {
			rate, mean = l.Most, 5
		}
		for until := at + 1 + int(mean*rng.ExpFloat64()); at < min(until, len(list)); at++ {
			list[at] = rate
		}
	}
}
