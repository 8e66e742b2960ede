package tail

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gearshift/internal/reports"
	"gearshift/router/placement/replicas"
	"gearshift/workloads"
)

// counting is one way to count replicas.
type counting struct {
	name string
	// scaler makes what counts on a series, which may have a history.
	scaler func(s *workloads.Series) (replicas.Scaler, error)
}

// family makes ways that differ in one number, of which a higher one means fewer replicas.
type family func(x float64) counting

// reactives returns the families of reactive scalers, by their targets.
func (f scaled) reactives() (list []family) {
	for _, stabilisation := range []time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute} {
		for _, window := range []time.Duration{15 * time.Second, time.Minute} {
			for _, tolerance := range []float64{0, 0.1} {
				list = append(list, func(target float64) counting { return f.reactive(target, tolerance, window, stabilisation) })
			}
		}
	}
	return list
}

func (f scaled) reactive(target, tolerance float64, window, stabilisation time.Duration) counting {
	return counting{
		fmt.Sprintf("target %.3g, tolerance %.2g, mean of %v, stabilised over %v", target, tolerance, window, stabilisation),
		func(*workloads.Series) (replicas.Scaler, error) {
			return &replicas.Reactive{Capacity: f.capacity, Target: target, Tolerance: tolerance, Window: window, Stabilisation: stabilisation, Least: 1}, nil
		},
	}
}

// forecasts returns the families of scalers by forecasts, by their guards, with or without the history of a series.
func (f scaled) forecasts(history bool) (list []family) {
	for _, stabilisation := range []time.Duration{time.Minute, 5 * time.Minute} {
		for _, quantile := range []float64{0.2, 0.5, 0.8, 0.9, 0.95, 0.99} {
			list = append(list, func(guard float64) counting { return f.forecast(quantile, guard, stabilisation, history) })
		}
	}
	return list
}

func (f scaled) forecast(quantile, guard float64, stabilisation time.Duration, history bool) counting {
	return counting{
		fmt.Sprintf("margin of %.3g of errors, guard %.3g, stabilised over %v", quantile, guard, stabilisation),
		func(s *workloads.Series) (replicas.Scaler, error) {
			p, err := replicas.NewPlanner(replicas.Plan{
				Forecast: replicas.Forecast{Season: 24 * 60, Seasons: 3, Smooth: 2, Level: 120, Recent: 10, Trend: 10},
				Interval: time.Minute, Capacity: f.capacity, WarmUp: f.warmUp, Keep: 5 * time.Minute,
				Target: 0.95, Quantile: quantile, Guard: guard, Stabilisation: stabilisation, Least: 1,
			})
			if err == nil && history {
				p.Learn(s.History)
			}
			return p, err
		},
	}
}

// outcome is a way to count, with means over series.
type outcome struct {
	counting
	refused, atPeaks, hours float64
	allowed                 bool
}

// playAll plays each series.
func (f scaled) playAll(series []*workloads.Series, by counting) (runs []*run, mean outcome, err error) {
	mean.counting = by
	n := float64(len(series))
	for _, s := range series {
		scaler, err := by.scaler(s)
		if err != nil {
			return nil, mean, err
		}
		r, err := f.play(s, scaler)
		if err != nil {
			return nil, mean, err
		}
		runs = append(runs, r)
		mean.refused, mean.atPeaks, mean.hours = mean.refused+r.refused/n, mean.atPeaks+r.atPeaks/n, mean.hours+r.hours/n
	}
	return runs, mean, nil
}

// tuning is series on which ways to count are tried.
type tuning struct {
	scaled
	*reports.Run
	series []*workloads.Series
}

// The numbers of families that are tried.
const (
	lowest, highest = 0.5, 1.0
	step            = 0.025
)

// edge returns the way of the family at the edge of those that are allowed: the last with few replicas where those
// with many are, or the first where those with few are.
func (t *tuning) edge(ctx context.Context, of family, fewest bool, allowed func(outcome) bool) (x outcome, err error) {
	low, high := -1, int(math.Round((highest-lowest)/step))+1 // outside at either end
	for high-low > 1 {
		middle := (low + high) / 2
		_, o, err := t.playAll(t.series, of(lowest+float64(middle)*step))
		if err = errors.Join(err, ctx.Err()); err != nil {
			return x, err
		}
		if o.allowed = allowed(o); o.allowed {
			x = o
		}
		if o.allowed == fewest {
			low = middle
		} else {
			high = middle
		}
	}
	return x, nil
}

// best returns what costs least of the edges of all families; it is not allowed where none is.
func (t *tuning) best(ctx context.Context, list []family, fewest bool, allowed func(outcome) bool, cost func(outcome) float64) (best outcome, err error) {
	edges, err := reports.Grid(ctx, t.Run, 1, len(list), func(ctx context.Context, _, i int) (outcome, error) { return t.edge(ctx, list[i], fewest, allowed) })
	if err != nil {
		return best, err
	}
	for _, x := range edges[0] {
		if x.allowed && (!best.allowed || cost(x) < cost(best)) {
			best = x
		}
	}
	return best, nil
}

// tune chooses, over the series, the reactive way with the fewest replica-hours of those with at most that share of
// errors, and then, of the ways by forecasts with at most its replica-hours less a hundredth, the one with the fewest
// errors at peaks. If none takes so few, that is the one with the fewest.
func (t *tuning) tune(ctx context.Context, reactives, forecasts []family, share float64) (reactive, forecast outcome, err error) {
	hours := func(o outcome) float64 { return o.hours }
	reactive, err = t.best(ctx, reactives, true, func(o outcome) bool { return o.refused <= share }, hours)
	if err == nil && !reactive.allowed {
		err = errors.New("cannot tune the replicas: no reactive scaler refuses so few")
	}
	if err != nil {
		return reactive, forecast, err
	}
	forecast, err = t.best(ctx, forecasts, false, func(o outcome) bool { return o.hours <= 0.99*reactive.hours }, func(o outcome) float64 { return o.atPeaks })
	if err == nil && !forecast.allowed {
		forecast, err = t.best(ctx, forecasts, true, func(outcome) bool { return true }, hours)
	}
	return reactive, forecast, err
}
