package placements

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// population is the number of points that a [search] draws at a time.
const population = 16

// search finds the parameters that earn most by a separable natural evolution strategy (Wierstra et al. 2014): it draws
// points around a mean, and moves mean and deviations towards those that earn most.
type search struct {
	mean, deviations []float64
	drawn            [population][]float64 // in deviations
	rng              *rand.Rand
}

const (
	searchStream   = 0x736e6573 // of random numbers
	firstDeviation = 0.3
)

func newSearch(parameters int, seed uint64) *search {
	s := &search{mean: make([]float64, parameters), rng: rand.New(rand.NewPCG(seed, searchStream))}
	s.deviations = slices.Repeat([]float64{firstDeviation}, parameters)
	for k := range s.drawn {
		s.drawn[k] = make([]float64, parameters)
	}
	return s
}

// draw draws points, in pairs on either side of the mean.
func (s *search) draw() (points [population][]float64) {
	for k := range points {
		points[k] = slices.Clone(s.mean)
		for i := range s.mean {
			if k%2 == 0 {
				s.drawn[k][i] = s.rng.NormFloat64()
			} else {
				s.drawn[k][i] = -s.drawn[k-1][i]
			}
			points[k][i] += s.deviations[i] * s.drawn[k][i]
		}
	}
	return points
}

// learn moves the mean and the deviations by what the points drawn last earn. Only their order counts.
func (s *search) learn(earned []float64) {
	var order [population]int
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order[:], func(a, b int) int { return cmp.Compare(earned[b], earned[a]) })
	var weights [population]float64
	sum := 0.0
	for rank, k := range order {
		weights[k] = max(0, math.Log(population/2+1)-math.Log(float64(rank+1)))
		sum += weights[k]
	}
	n := float64(len(s.mean))
	rate := (3 + math.Log(n)) / (10 * math.Sqrt(n))
	for i := range s.mean {
		shift, widen := 0.0, 0.0
		for k, w := range weights {
			z, share := s.drawn[k][i], w/sum-1.0/population
			shift, widen = shift+share*z, widen+share*(z*z-1)
		}
		s.mean[i] += s.deviations[i] * shift
		s.deviations[i] *= math.Exp(rate * widen)
	}
}
