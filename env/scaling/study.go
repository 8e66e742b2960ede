package scaling

import (
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"gearshift/router/placement/replicas"
)

// Fleet is what replicas are in a study.
type Fleet struct {
	Capacity         float64
	WarmUp           time.Duration
	Period, Patience time.Duration
	Peak             float64
}

// Policy is one way to count replicas.
type Policy struct {
	Name string
	// New makes a scaler for a series, which may have a history.
	New func(s *Series) (replicas.Scaler, error)
}

// Outcome is the mean of results over several series.
type Outcome struct{ Errors, PeakErrors, ReplicaHours float64 }

// Mean returns that of results.
func Mean(results []*Result) (o Outcome) {
	for _, r := range results {
		o.Errors += r.Errors() / float64(len(results))
		o.PeakErrors += r.PeakErrors() / float64(len(results))
		o.ReplicaHours += r.ReplicaHours / float64(len(results))
	}
	return o
}

// Play runs a policy on each series. All begin with replicas for the first minute at 70 %.
func (f Fleet) Play(series []*Series, p Policy) ([]*Result, error) {
	var results []*Result
	for _, s := range series {
		scaler, err := p.New(s)
		if err != nil {
			return nil, err
		}
		r, err := Run(&Config{
			Series: s, Scaler: scaler, Capacity: f.Capacity, WarmUp: f.WarmUp, Period: f.Period, Patience: f.Patience, Peak: f.Peak,
			Start: int(math.Ceil(s.Rates[0] / f.Capacity / 0.7)),
		})
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// Family is policies that differ in one number, of which a higher one means fewer replicas.
type Family func(x float64) Policy

// The numbers of families that are tried.
const (
	lowest, highest = 0.5, 1.0
	step            = 0.025
)

var errNone = errors.New("cannot tune the replicas: no policy meets what is asked of it")

// found is a policy with its mean over the series.
type found struct {
	policy  Policy
	outcome Outcome
	ok      bool
}

// edge returns the policy of the family at the edge of those that are allowed: the last with few
// replicas where those with many are, or the first where those with few are.
func (f Fleet) edge(series []*Series, family Family, fewest bool, allowed func(Outcome) bool) (x found, err error) {
	low, high := -1, int(math.Round((highest-lowest)/step))+1 // outside at either end
	for high-low > 1 {
		middle := (low + high) / 2
		p := family(lowest + float64(middle)*step)
		results, err := f.Play(series, p)
		if err != nil {
			return x, err
		}
		o := Mean(results)
		ok := allowed(o)
		if ok {
			x = found{p, o, true}
		}
		if ok == fewest {
			low = middle
		} else {
			high = middle
		}
	}
	return x, nil
}

// best returns what costs least of the edges of all families.
func (f Fleet) best(ctx context.Context, series []*Series, list []Family, fewest bool, allowed func(Outcome) bool, cost func(Outcome) float64) (best found, err error) {
	edges := make([]found, len(list))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		group.Go(func() (err error) {
			if err = ctx.Err(); err == nil {
				edges[i], err = f.edge(series, list[i], fewest, allowed)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return best, err
	}
	for _, x := range edges {
		if x.ok && (!best.ok || cost(x.outcome) < cost(best.outcome)) {
			best = x
		}
	}
	if !best.ok {
		return best, errNone
	}
	return best, nil
}

// Tuned is a reactive policy and one by forecasts that may be compared.
type Tuned struct {
	Reactive, Forecast Policy
	// OnReactive and OnForecast are their means over the series that they were tuned on.
	OnReactive, OnForecast Outcome
}

// Tune chooses, over the series, the reactive policy with the fewest replica-hours of those with
// at most that share of errors, and then, of the policies by forecasts with at most its
// replica-hours less a hundredth, the one with the fewest errors at peaks. If none takes so few,
// that is the one with the fewest.
func (f Fleet) Tune(ctx context.Context, series []*Series, reactive, forecast []Family, share float64) (t Tuned, err error) {
	r, err := f.best(ctx, series, reactive, true, func(o Outcome) bool { return o.Errors <= share }, func(o Outcome) float64 { return o.ReplicaHours })
	if err != nil {
		return t, err
	}
	most := 0.99 * r.outcome.ReplicaHours
	x, err := f.best(ctx, series, forecast, false, func(o Outcome) bool { return o.ReplicaHours <= most }, func(o Outcome) float64 { return o.PeakErrors })
	if errors.Is(err, errNone) {
		x, err = f.best(ctx, series, forecast, true, func(Outcome) bool { return true }, func(o Outcome) float64 { return o.ReplicaHours })
	}
	return Tuned{r.policy, x.policy, r.outcome, x.outcome}, err
}
