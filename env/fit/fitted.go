package fit

import "math"

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
	// Held are the parameters that the log does not tell and that were given or
	// assumed.
	Held []string `yaml:"held"`
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
