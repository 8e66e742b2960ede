package workloads

import (
	"bufio"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// JobClients are recorded clients as ServeGen (arXiv 2505.09999) publishes them: of each, for
// successive periods of a day, how many requests per second it sends, and how irregularly.
type JobClients struct {
	clients [][]jobsPeriod
	ends    float64 // in seconds: the end of the last period
}

// jobsPeriod is a client's sending from a time on, in seconds.
type jobsPeriod struct {
	from, rate float64
	gaps       distuv.Quantiler // of a mean that the rate replaces; nil if nothing is sent
	mean       float64          // of the gaps
}

// ReadJobClients reads the files *-trace.csv of a folder, a client each. Their lines are the
// beginning of a period in seconds, requests per second, the coefficient of variation of the
// gaps, their distribution (Gamma or Weibull, or nothing), its shape and its scale.
func ReadJobClients(folder fs.FS) (*JobClients, error) {
	names, err := fs.Glob(folder, "*-trace.csv")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("cannot read clients: there is no file *-trace.csv")
	}
	slices.Sort(names)
	c := &JobClients{}
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("cannot read clients: %w", err)
		}
		periods, err := readJobsPeriods(string(text))
		if err != nil {
			return nil, fmt.Errorf("cannot read clients: %s: %w", path.Base(name), err)
		}
		c.clients = append(c.clients, periods)
		c.ends = max(c.ends, periods[len(periods)-1].from+600)
	}
	return c, nil
}

func readJobsPeriods(text string) ([]jobsPeriod, error) {
	var list []jobsPeriod
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		p, err := readJobsPeriod(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(list) > 0 && p.from <= list[len(list)-1].from {
			return nil, fmt.Errorf("line %d: it begins at %v, not after the one before", n, p.from)
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("it is empty; want lines of begin, rate, variation, distribution, shape, scale")
	}
	return list, lines.Err()
}

func readJobsPeriod(line string) (jobsPeriod, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 6 {
		return jobsPeriod{}, fmt.Errorf("%d fields; want begin, rate, variation, distribution, shape, scale", len(fields))
	}
	var numbers [6]float64
	for i, f := range fields {
		if i == 3 {
			continue
		}
		x, err := strconv.ParseFloat(f, 64)
		if err != nil || !(x >= 0 && x < 1e9) {
			return jobsPeriod{}, fmt.Errorf("field %d: %q is not a number from 0 to 1e9", i+1, f)
		}
		numbers[i] = x
	}
	p := jobsPeriod{from: numbers[0], rate: numbers[1]}
	shape, scale := numbers[4], numbers[5]
	switch {
	case p.rate == 0 || shape == 0 || scale == 0:
		p.rate = 0
	case fields[3] == "Gamma":
		p.gaps, p.mean = distuv.Gamma{Alpha: shape, Beta: 1 / scale}, shape*scale
	case fields[3] == "Weibull":
		p.gaps, p.mean = distuv.Weibull{K: shape, Lambda: scale}, scale*math.Gamma(1+1/shape)
	default:
		return jobsPeriod{}, fmt.Errorf("distribution: %q; want Gamma or Weibull", fields[3])
	}
	return p, nil
}

// Rate is the mean number of requests per second of all clients.
func (c *JobClients) Rate() float64 {
	var sent float64
	for _, periods := range c.clients {
		for i, p := range periods {
			sent += p.rate * (c.end(periods, i) - p.from)
		}
	}
	return sent / c.ends
}

// end is that of a client's i-th period.
func (c *JobClients) end(periods []jobsPeriod, i int) float64 {
	if i+1 < len(periods) {
		return periods[i+1].from
	}
	return c.ends
}

// times draws when requests come in some of the day's seconds, in order, with all rates so
// many times as high.
func (c *JobClients) times(rng *rand.Rand, from, length, rate float64) []float64 {
	var all []float64
	for _, periods := range c.clients {
		for i, p := range periods {
			end := min(c.end(periods, i), from+length)
			begin := max(p.from, from)
			if p.rate == 0 || begin >= end {
				continue
			}
			gap := func() float64 { return p.gaps.Quantile(rng.Float64()) / p.mean / (p.rate * rate) }
			for at := begin + rng.Float64()*gap(); at < end; at += gap() {
				all = append(all, at-from)
			}
		}
	}
	slices.Sort(all)
	return all
}

// DrawFrom returns jobs that come when the clients' requests do, in a stretch of their day
// that is drawn, of the load's length. Rates are scaled so that the mean of the whole day is
// the given one, in requests per second; sizes, floors and deadlines are the load's.
func (l *JobLoad) DrawFrom(c *JobClients, rate float64, seed uint64) ([]JobArrival, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("cannot draw jobs: %w", err)
	}
	length := l.Length.Seconds()
	if length > c.ends {
		return nil, fmt.Errorf("cannot draw jobs: length: %v is longer than the clients' day, %v s", l.Length, c.ends)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	d := drawing{load: l, sizes: rand.New(rand.NewPCG(seed, 2))}
	times := rate / l.meanSize() / c.Rate()
	for _, at := range c.times(rng, rng.Float64()*(c.ends-length), length, times) {
		d.add(l.size(d.sizes), time.Duration(at*float64(time.Second)))
	}
	return d.all, nil
}
