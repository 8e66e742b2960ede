package tier

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/internal/splitmix"
)

// Drawing describes a tier whose models are drawn.
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
	Seed     uint64
}

// Draw draws the hosts and models of a configuration, of which it sets no more. Replicas are
// placed one by one where the least work is expected for each core.
func (d Drawing) Draw() (*Config, error) {
	if d.Hosts < 2 || d.Models < 1 || len(d.Kinds) == 0 || d.Fastest <= 0 || d.Slowest < d.Fastest || !(d.Spread > 0) || d.Replicas < 2*d.Models {
		return nil, fmt.Errorf("cannot draw %d models from %v to %v of work, with %d replicas, on %d hosts of %v cores", d.Models, d.Fastest, d.Slowest, d.Replicas, d.Hosts, d.Kinds)
	}
	random := rand.New(rand.NewPCG(splitmix.Mix(d.Seed), 52))
	c := &Config{}
	for i := range d.Hosts {
		c.Hosts = append(c.Hosts, Host{Cores: d.Kinds[i%len(d.Kinds)]})
	}
	var parts []float64
	sum := 0.0
	for k := range d.Models {
		parts = append(parts, math.Pow(float64(k+1), -d.Skew))
		sum += parts[k]
	}
	expected := make([]float64, d.Hosts)
	for k, part := range parts {
		log := math.Log(float64(d.Fastest)) + random.Float64()*math.Log(float64(d.Slowest)/float64(d.Fastest))
		mean := time.Duration(math.Exp(log))
		n := min(d.Hosts, max(2, int(math.Round(part/sum*float64(d.Replicas)))))
		m := Model{Name: fmt.Sprintf("m%d", k+1), Share: part / mean.Seconds(), Work: Varying(mean, d.Spread), Mean: mean}
		for range n {
			m.Replicas = append(m.Replicas, emptiest(c.Hosts, expected, m.Replicas, random))
			expected[m.Replicas[len(m.Replicas)-1]] += part / float64(n)
		}
		c.Models = append(c.Models, m)
	}
	return c, nil
}

// emptiest is the host with the least expected work for each core that has no replica yet; any
// of equals.
func emptiest(hosts []Host, expected []float64, taken []int, random *rand.Rand) int {
	best := -1
	for _, i := range random.Perm(len(hosts)) {
		if slices.Contains(taken, i) {
			continue
		}
		if best < 0 || cmp.Less(expected[i]/hosts[i].Cores, expected[best]/hosts[best].Cores) {
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
