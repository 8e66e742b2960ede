package logged

import (
	"math"
	"slices"

	"gearshift/env"
	"gearshift/router/fleet"
)

// A forecast is of the present batch's pace. A request's own wavers around it, and
// prefills of others interrupt it: how much, the log shows. What a choice is worth
// is therefore the mean over the errors that forecasts have made on logged requests
// (the smearing estimate, Duan 1983).

// errors are what the true time per token was, as multiples of the forecast, of
// each variant's logged requests: so many quantiles. Work that failed is +∞.
type errors [][]float64

const (
	errorQuantiles = 20
	// fewest requests of a variant; with fewer, the errors are those of all.
	fewestErrors = 30
)

func (s *Scorer) errorsOf(l *Log, variants int) errors {
	found, all := make([][]float64, variants), []float64(nil)
	var view fleet.View
	l.each(func(_ int, d *Decision) {
		if !d.Judged || d.Moved {
			return
		}
		view.CopyFrom(d.View)
		s.Forecaster.Forecast(&view, &d.Request)
		ratio := math.Inf(1)
		if d.PerToken > 0 {
			allowed := view.Table.Tasks[d.Request.Task].Allowed(d.Request.Deadline)
			ratio = float64(d.PerToken) / (view.Forecasts[d.Replica].Pace * float64(allowed))
		}
		found[d.Variant], all = append(found[d.Variant], ratio), append(all, ratio)
	})
	e := make(errors, variants)
	for v := range e {
		if e[v] = quantiles(found[v]); len(found[v]) < fewestErrors {
			e[v] = quantiles(all)
		}
	}
	return e
}

// quantiles returns the middles of equal parts of the values; 1 of none.
func quantiles(values []float64) []float64 {
	if len(values) == 0 {
		return []float64{1}
	}
	slices.Sort(values)
	list := make([]float64, min(errorQuantiles, len(values)))
	for i := range list {
		list[i] = values[(2*i+1)*len(values)/(2*len(list))]
	}
	return list
}

// utility returns what the request is expected to be worth on the replica.
func (e errors) utility(v *fleet.View, r *fleet.Request, replica int) float64 {
	task, variant := &v.Table.Tasks[r.Task], v.Table.Replicas[replica].Variant
	deadlines := task.Deadlines(r)
	var sum float64
	for _, ratio := range e[variant] {
		forecast := v.Forecasts[replica]
		for _, x := range []*float64{&forecast.Pace, &forecast.First, &forecast.Total} {
			*x = min(ratio**x, beyondAll)
		}
		sum += task.Utility(variant, forecast.Expects(deadlines), deadlines)
	}
	return sum / float64(len(e[variant]))
}

// beyondAll deadlines an answer is worth nothing, and still a Duration.
const beyondAll = 1e6

// NewScorer makes Scores of a log of a fleet with so many variants.
func NewScorer(l *Log, f env.Forecaster, b env.Balancer, variants int) *Scorer {
	s := &Scorer{Forecaster: f, Balancer: b, log: l}
	s.errors = s.errorsOf(l, variants)
	return s
}
