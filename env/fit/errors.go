package fit

import (
	"fmt"
	"math"
)

// Error is how far predictions lie from what was measured: quantiles of the
// relative absolute error per request, as fractions.
type Error struct {
	Median float64 `yaml:"median" json:"median"`
	P90    float64 `yaml:"p90" json:"p90"`
}

// String returns the median, and the p90 in brackets.
func (e Error) String() string { return fmt.Sprintf("%.1f %% (%.1f %%)", 100*e.Median, 100*e.P90) }

// Of returns the quantiles of absolute errors; 0 of none.
func Of(errors []float64) Error {
	if len(errors) == 0 {
		return Error{}
	}
	return Error{Median: Quantile(errors, 0.5), P90: Quantile(errors, 0.9)}
}

// Off is how far predictions lie from several figures, and which of them lies furthest.
type Off struct {
	Error   `yaml:",inline"`
	Worst   string  `yaml:"worst"`
	WorstBy float64 `yaml:"worst_by"` // signed
}

// OffBy returns how far n predictions lie from what was measured. Of gives the name of a figure,
// and its predicted ÷ measured − 1.
func OffBy(n int, of func(i int) (name string, by float64)) (o Off) {
	errors := make([]float64, n)
	for i := range n {
		name, by := of(i)
		errors[i] = math.Abs(by)
		if math.Abs(by) >= math.Abs(o.WorstBy) {
			o.Worst, o.WorstBy = name, by
		}
	}
	o.Error = Of(errors)
	return o
}

// Errors are those of a set of requests.
type Errors struct {
	Requests int   `yaml:"requests"`
	EndToEnd Error `yaml:"e2e_error"`
	TTFT     Error `yaml:"ttft_error"`
	// TPOT is over the requests of more than one token.
	TPOT Error `yaml:"tpot_error"`
}

// Compare scores predicted times of requests.
func Compare(requests []Request, times []Times) Errors {
	var e2e, ttft, tpot []float64
	for i, r := range requests {
		p := r.predicted(times[i])
		e2e = append(e2e, math.Abs(p.EndToEnd()/r.EndToEnd()-1))
		ttft = append(ttft, math.Abs(p.TTFT()/r.TTFT()-1))
		if r.OutputTokens > 1 {
			tpot = append(tpot, math.Abs(p.TPOT()/r.TPOT()-1))
		}
	}
	return Errors{len(requests), Of(e2e), Of(ttft), Of(tpot)}
}

// Shares are those of the requests whose latency per output token, from arrival
// to the last token, is within a deadline in milliseconds.
type Shares struct {
	Deadline  float64 `yaml:"ms_per_token"`
	Measured  float64 `yaml:"measured"`
	Predicted float64 `yaml:"predicted"`
}

// Within compares the shares of requests, of which there is at least one.
func Within(requests []Request, times []Times, deadline float64) Shares {
	s := Shares{Deadline: deadline}
	for i, r := range requests {
		each := 1 / float64(len(requests))
		within := deadline / 1e3 * float64(r.OutputTokens)
		if r.EndToEnd() <= within {
			s.Measured += each
		}
		if r.predicted(times[i]).EndToEnd() <= within {
			s.Predicted += each
		}
	}
	return s
}
