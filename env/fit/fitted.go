package fit

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Misfit is the median relative error, end to end or per token, on the very
// requests that were fitted, above which the model does not fit the log.
const Misfit = 0.15

// Fitted is what a fit found, and how good it is.
type Fitted struct {
	// Log and Requests say what was fitted: the first so many of the log.
	Log      string `yaml:"log"`
	Requests int    `yaml:"requests"`
	Model    `yaml:",inline"`
	// Intervals are of 90 %, by parameter: where refits came that explain resampled
	// blocks of consecutive requests as well as the best fit does. Empty if there
	// were none.
	Intervals map[string]Interval `yaml:"intervals_90,omitempty"`
	// Held are the parameters that the log does not determine and that were given or
	// assumed.
	Held []string `yaml:"held,flow"`
	// Errors are on the fitted requests; Explained is the share of the variance
	// of the end-to-end latency's logarithm that the model explains.
	Errors    Errors  `yaml:"errors"`
	Explained float64 `yaml:"explained_variance"`
	// Fits is false if a median error is above Misfit.
	Fits bool `yaml:"fits"`
}

// Interval is a range of values.
type Interval struct {
	Low  float64 `yaml:"low"`
	High float64 `yaml:"high"`
}

// names are those of a search's parameters, in order.
var names = []string{"weights_ms", "token_ms", "context_token_ms", "sequence_ms", "kv_tokens"}

func (s *search) fitted(best trial, log string) (*Fitted, error) {
	f := &Fitted{Log: log, Requests: s.n, Model: *s.model(best.x, best.budget)}
	times, err := f.Predict(s.requests)
	if err != nil {
		return nil, err
	}
	f.Errors = Compare(s.requests[:s.n], times)
	f.Explained = Explained(s.n, func(i int) (measured, predicted float64) {
		r := &s.requests[i]
		return r.EndToEnd(), r.predicted(times[i]).EndToEnd()
	})
	f.Fits = f.Errors.EndToEnd.Median <= Misfit && f.Errors.TPOT.Median <= Misfit
	f.Held = []string{"launch_floor_ms", "growth_per_sequence", "overhead_ms", "contention", "block_tokens"}
	if s.options.MaxSequences > 0 || !s.guess.capped {
		f.Held = append(f.Held, "max_sequences")
	}
	if s.options.MaxBatchTokens > 0 {
		f.Held = append(f.Held, "max_batch_tokens")
	}
	if !s.binding() {
		f.Held = append(f.Held, "kv_tokens")
	}
	f.Intervals = s.intervals(best)
	return f, nil
}

// Explained is 1 − the residuals' share of the variance of the logarithm of n times.
func Explained(n int, of func(i int) (measured, predicted float64)) float64 {
	var sum, squares, residual float64
	for i := range n {
		measured, predicted := of(i)
		v := math.Log(measured)
		d := math.Log(predicted) - v
		sum, squares, residual = sum+v, squares+v*v, residual+d*d
	}
	variance := squares - sum*sum/float64(n)
	if variance <= 0 {
		return 0
	}
	return 1 - residual/variance
}

const (
	// blocks of consecutive requests are resampled: those that were in the engine
	// together err together.
	blocks = 10
	// refitEffort is the simulations of a refit.
	refitEffort = 150
	// aboutAsGood is how much larger a loss may be than the least, and fidelity an
	// error on top: closer than that a simplified engine is to no real one, however
	// well it is fitted.
	aboutAsGood, fidelity = 1.05, 0.01
	// stride is the change of a parameter's logarithm from one refit to the next on
	// the way along a trade, strides the most of them, and strideEffort the
	// simulations of each.
	stride, strides, strideEffort = 0.14, 10, 70
)

// intervals are of 90 %, each as wide as the wider of two. One is by what refits to
// resampled blocks come to: how much the fit hangs on these requests. They begin at
// the best fit and stay near it, so that they say nothing of parameters that trade
// against each other. The other is by how far a parameter can be moved, the others
// fitted again each time, until the log is explained worse: along such a trade, far.
func (s *search) intervals(best trial) map[string]Interval {
	if s.options.Resamples < 2 {
		return nil
	}
	random := rand.New(rand.NewPCG(1, 1))
	found := make([][]float64, len(best.x))
	for range s.options.Resamples {
		s.resample(random)
		for k, v := range s.descend(best.x, best.budget, refitEffort).x {
			found[k] = append(found[k], v)
		}
	}
	s.weights = nil
	const low, high = 0.05, 0.95
	for k := range found {
		found[k] = []float64{Quantile(found[k], low), Quantile(found[k], high), best.x[k] - 2*fidelity, best.x[k] + 2*fidelity}
	}
	for k := range best.x {
		for _, by := range []float64{-stride, stride} {
			for _, x := range s.along(best, k, by) {
				for j, v := range x {
					found[j] = append(found[j], v)
				}
			}
		}
	}
	out := map[string]Interval{}
	for k, values := range found {
		out[names[k]] = Interval{Low: math.Exp(slices.Min(values)), High: math.Exp(slices.Max(values))}
	}
	return out
}

// along returns where the parameters come to as parameter k goes from the best fit by
// strides, while the others make up for it.
func (s *search) along(best trial, k int, by float64) (path [][]float64) {
	most := aboutAsGood*best.loss + 2*huber(fidelity)
	others := slices.Delete(slices.Clone(best.x), k, k+1)
	for at := best.x[k] + by; len(path) < strides; at += by {
		with := func(others []float64) []float64 { return slices.Insert(slices.Clone(others), k, at) }
		const size = 0.1
		found, loss := minimise(func(y []float64) float64 { return s.loss(with(y), best.budget) }, others, size, strideEffort)
		if loss > most {
			break
		}
		others = found
		path = append(path, with(found))
	}
	return path
}

// resample draws as many blocks as there are, some more than once.
func (s *search) resample(random *rand.Rand) {
	s.weights = make([]float64, s.n)
	for range blocks {
		block := random.IntN(blocks)
		for i := block * s.n / blocks; i < (block+1)*s.n/blocks; i++ {
			s.weights[i]++
		}
	}
}
