package scaling

import (
	"fmt"
	"time"

	"gearshift/router/placement/replicas"
)

// Reactive returns the policy of a [replicas.Reactive] for the fleet.
func (f Fleet) Reactive(target, tolerance float64, window, stabilisation time.Duration) Policy {
	return Policy{
		Name: fmt.Sprintf("target %.3g, tolerance %.2g, mean of %v, stabilised over %v", target, tolerance, window, stabilisation),
		New: func(*Series) (replicas.Scaler, error) {
			return &replicas.Reactive{Capacity: f.Capacity, Target: target, Tolerance: tolerance, Window: window, Stabilisation: stabilisation, Least: 1}, nil
		},
	}
}

// Reactives returns the families of reactive policies that are tried, by their targets.
func (f Fleet) Reactives() (list []Family) {
	for _, stabilisation := range []time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute} {
		for _, window := range []time.Duration{15 * time.Second, time.Minute} {
			for _, tolerance := range []float64{0, 0.1} {
				list = append(list, func(target float64) Policy { return f.Reactive(target, tolerance, window, stabilisation) })
			}
		}
	}
	return list
}

// Plan returns the description of a planner for the fleet, whose loads repeat each day.
func (f Fleet) Plan(quantile, guard float64, stabilisation time.Duration) replicas.Plan {
	return replicas.Plan{
		Forecast: replicas.Forecast{Season: minutes, Seasons: 3, Smooth: 2, Level: 120, Recent: 10, Trend: 10},
		Interval: Minute, Capacity: f.Capacity, WarmUp: f.WarmUp, Keep: 5 * time.Minute,
		Target: 0.95, Quantile: quantile, Guard: guard, Stabilisation: stabilisation, Least: 1,
	}
}

// Forecast returns the policy of a [replicas.Planner] for the fleet, with or without the history
// of the series.
func (f Fleet) Forecast(quantile, guard float64, stabilisation time.Duration, history bool) Policy {
	return Policy{
		Name: fmt.Sprintf("margin of %.3g of errors, guard %.3g, stabilised over %v", quantile, guard, stabilisation),
		New: func(s *Series) (replicas.Scaler, error) {
			p, err := replicas.NewPlanner(f.Plan(quantile, guard, stabilisation))
			if err == nil && history {
				p.Learn(s.History)
			}
			return p, err
		},
	}
}

// Forecasts returns the families of policies by forecasts that are tried, by their guards.
func (f Fleet) Forecasts(history bool) (list []Family) {
	for _, stabilisation := range []time.Duration{time.Minute, 5 * time.Minute} {
		for _, quantile := range []float64{0.2, 0.5, 0.8, 0.9, 0.95, 0.99} {
			list = append(list, func(guard float64) Policy { return f.Forecast(quantile, guard, stabilisation, history) })
		}
	}
	return list
}
