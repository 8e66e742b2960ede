package clients

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
)

// Drawing describes hosts and models that are drawn.
type Drawing struct {
	// Hosts is how many there are. Their cores are those of Kinds, in turn.
	Hosts int
	Kinds []float64
	// Models is how many there are. The k-th has 1/k^Skew of the work of the first.
	Models int
	Skew   float64
	// Fastest and Slowest bound what a request takes on one core in the mean, drawn evenly on a
	// logarithmic scale.
	Fastest, Slowest time.Duration
	// Spread is the coefficient of variation of a model's requests.
	Spread float64
	// Replicas is how many all models have together; each has two at least, and more by its work.
	Replicas int
	// Error is the coefficient of variation of the factor by which a model's work is more or
	// less than was expected of it when replicas were counted and placed.
	Error float64
	// Memory is what hosts have for each core, and Smallest and Largest bound what a replica
	// takes. Zero is not drawn.
	Memory, Smallest, Largest int64
	// Bandwidth is what hosts' memory has for each core, and Lightest and Heaviest bound what a
	// request uses of it on a core. Zero is not drawn.
	Bandwidth, Lightest, Heaviest float64
	// LoadTime and LoadWork are those of each model.
	LoadTime, LoadWork time.Duration
	Seed               uint64
}

func (d *Drawing) validate() error {
	if d.Hosts < 2 || d.Models < 1 || len(d.Kinds) == 0 || d.Fastest <= 0 || d.Slowest < d.Fastest || !(d.Spread > 0) || d.Replicas < 2*d.Models {
		return fmt.Errorf("cannot draw %d models from %v to %v of work, with %d replicas, on %d hosts of %v cores", d.Models, d.Fastest, d.Slowest, d.Replicas, d.Hosts, d.Kinds)
	}
	if d.Error < 0 || d.Memory < 0 || d.Memory > 0 && !(0 < d.Smallest && d.Smallest <= d.Largest) || d.Bandwidth < 0 || d.Bandwidth > 0 && !(0 < d.Lightest && d.Lightest <= d.Heaviest) {
		return fmt.Errorf("cannot draw models with an error of %v, memory from %d to %d of hosts with %d for each core, and bandwidth from %v to %v of hosts with %v",
			d.Error, d.Smallest, d.Largest, d.Memory, d.Lightest, d.Heaviest, d.Bandwidth)
	}
	return nil
}

// Draw draws the hosts and models of a configuration, of which it sets no more. Replicas are
// placed one by one where the least work is expected for each core, of hosts that have the
// memory.
func (d Drawing) Draw() (*Config, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(splitmix.Mix(d.Seed), 52))
	others := rand.New(rand.NewPCG(splitmix.Mix(d.Seed), 53)) // a stream of its own, so that the rest is the same without these draws
	c := &Config{}
	for i := range d.Hosts {
		cores := d.Kinds[i%len(d.Kinds)]
		c.Hosts = append(c.Hosts, fleet.Host{Compute: cores, Memory: int64(cores * float64(d.Memory)), Bandwidth: cores * d.Bandwidth})
	}
	var parts, guesses []float64
	sum := 0.0
	for k := range d.Models {
		parts = append(parts, math.Pow(float64(k+1), -d.Skew))
		guesses = append(guesses, parts[k])
		if d.Error > 0 {
			variance := math.Log(1 + d.Error*d.Error)
			guesses[k] *= math.Exp(math.Sqrt(variance)*others.NormFloat64() - variance/2)
		}
		sum += guesses[k]
	}
	place := placing{c: c, expected: make([]float64, d.Hosts), left: make([]int64, d.Hosts), random: random}
	for i := range c.Hosts {
		place.left[i] = c.Hosts[i].Memory
	}
	for k, part := range parts {
		mean := time.Duration(between(float64(d.Fastest), float64(d.Slowest), random))
		n := min(d.Hosts, max(2, int(math.Round(guesses[k]/sum*float64(d.Replicas)))))
		m := Demand{Model: fleet.Model{Name: fmt.Sprintf("m%d", k+1), Load: d.LoadTime}, Share: part / mean.Seconds(), Work: Varying(mean, d.Spread), Mean: mean, LoadWork: d.LoadWork}
		if d.Memory > 0 {
			m.Memory = int64(between(float64(d.Smallest), float64(d.Largest), others))
		}
		if d.Bandwidth > 0 {
			m.Bandwidth = between(d.Lightest, d.Heaviest, others)
		}
		for range n {
			on := place.emptiest(&m)
			if on < 0 {
				break // no host has the memory
			}
			m.Replicas = append(m.Replicas, on)
			place.expected[on] += guesses[k] / float64(n)
			place.left[on] -= m.Memory
		}
		if len(m.Replicas) < 2 {
			return nil, fmt.Errorf("cannot draw the hosts: the hosts have no memory for two replicas of model %d", k)
		}
		c.Models = append(c.Models, m)
	}
	return c, nil
}

// between draws a number evenly on a logarithmic scale.
func between(low, high float64, random *rand.Rand) float64 {
	return math.Exp(math.Log(low) + random.Float64()*math.Log(high/low))
}

// placing is what is known while replicas are placed.
type placing struct {
	c        *Config
	expected []float64 // work, by host
	left     []int64   // memory
	random   *rand.Rand
}

// emptiest is the host with the least expected work for each core that has no replica of the
// model yet, and the memory for it; any of equals. It is −1 if there is none.
func (p *placing) emptiest(m *Demand) int {
	best := -1
	for _, i := range p.random.Perm(len(p.c.Hosts)) {
		if slices.Contains(m.Replicas, i) || p.c.Hosts[i].Memory > 0 && p.left[i] < m.Memory {
			continue
		}
		if best < 0 || cmp.Less(p.expected[i]/p.c.Hosts[i].Compute, p.expected[best]/p.c.Hosts[best].Compute) {
			best = i
		}
	}
	return best
}

// Varying draws work with a log-normal distribution of the coefficient of variation.
func Varying(mean time.Duration, spread float64) func(*rand.Rand) time.Duration {
	variance := math.Log(1 + spread*spread)
	middle, sigma := float64(mean)*math.Exp(-variance/2), math.Sqrt(variance)
	return func(random *rand.Rand) time.Duration {
		return time.Duration(middle * math.Exp(sigma*random.NormFloat64()))
	}
}
