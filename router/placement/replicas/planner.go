package replicas

import (
	"fmt"
	"math"
	"time"

	"gearshift/internal/faults"
)

// Horizon is how far ahead a plan may look.
const Horizon = 2 * time.Hour

// Plan describes a [Planner].
type Plan struct {
	Forecast
	// Interval is that of the forecast's rates.
	Interval time.Duration
	// Capacity is how many examples a replica answers in a second.
	Capacity float64
	// WarmUp is how long a replica takes from its start until it answers.
	WarmUp time.Duration
	// Keep is for how long after its warm-up a replica must be wanted to be started, or kept.
	Keep time.Duration
	// Target is the utilisation that replicas are planned for, if the load is the expected one
	// and the margin.
	Target float64
	// Quantile is the share of intervals in which the load may not exceed the expected one and
	// the margin, by the errors of the last day.
	Quantile float64
	// Guard is the utilisation by the load of this moment from which replicas are added whatever
	// is expected.
	Guard float64
	// Stabilisation is for how long a wish for more replicas outlasts its reason.
	Stabilisation time.Duration
	// Least is how many there are at least.
	Least int
}

// Validate returns an error that names every wrong number.
func (c Plan) Validate() error {
	var found faults.List
	found.If(c.Interval <= 0, "an interval of %v; want more than 0", c.Interval)
	found.If(!(c.Capacity > 0) || math.IsInf(c.Capacity, 1), "a capacity of %v examples/s; want a number above 0", c.Capacity)
	found.If(c.WarmUp < 0 || c.Keep < 0 || c.WarmUp+c.Keep > Horizon, "a warm-up of %v, and replicas kept for %v; want %v at most together", c.WarmUp, c.Keep, Horizon)
	found.If(!(c.Target > 0 && c.Target <= 1), "a target of %v; want more than 0 and at most 1", c.Target)
	found.If(!(c.Quantile >= 0 && c.Quantile <= 1), "a quantile of %v; want from 0 to 1", c.Quantile)
	found.If(!(c.Guard > 0), "a guard of %v; want more than 0", c.Guard)
	found.If(c.Stabilisation < 0, "a stabilisation of %v; want 0 or more", c.Stabilisation)
	found.If(c.Least < 0, "%d replicas at least; want 0 or more", c.Least)
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot plan replicas: %w", err)
	}
	c.Forecast.Ahead = c.steps(c.WarmUp)
	return c.Forecast.Validate()
}

// steps is how many intervals cover the time, 1 at least.
func (c *Plan) steps(d time.Duration) int {
	return max(1, int((d+c.Interval-1)/c.Interval))
}

// Planner is a [Scaler] that has replicas started a warm-up before the load that needs them is
// expected. How much more than expected they are to bear comes from the errors of the forecasts
// that were a warm-up old. Loads that exceed all that are followed as they come.
type Planner struct {
	Plan
	forecaster *Forecaster
	asked      time.Duration
	ends       time.Duration // of the interval
	sum        float64       // of rate × seconds in it
	planned    int
	wishes     wishes
}

// NewPlanner returns a planner without any history. [Plan.Forecast.Ahead] follows from the
// warm-up.
func NewPlanner(c Plan) (*Planner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Forecast.Ahead = c.steps(c.WarmUp)
	f, err := NewForecaster(c.Forecast)
	if err != nil {
		return nil, err
	}
	return &Planner{Plan: c, forecaster: f, ends: c.Interval}, nil
}

// Learn takes rates of intervals before the first call of Desired, the earliest first.
func (p *Planner) Learn(rates []float64) {
	for _, r := range rates {
		p.forecaster.Observe(r)
	}
	p.plan()
}

// Desired implements [Scaler].
func (p *Planner) Desired(now time.Duration, rate float64, _ int) int {
	p.sum += rate * (now - p.asked).Seconds()
	p.asked = now
	if now >= p.ends {
		p.forecaster.Observe(p.sum / (now - p.ends + p.Interval).Seconds())
		p.ends, p.sum = now+p.Interval, 0
		p.plan()
	}
	return p.wishes.add(now, max(p.Least, p.planned, count(rate, p.Capacity*p.Guard)), p.Stabilisation)
}

// plan counts what is needed from now until replicas that are started now have been of use.
func (p *Planner) plan() {
	p.planned = 0
	for ahead := 1; ahead <= p.steps(p.WarmUp+p.Keep); ahead++ {
		p.planned = max(p.planned, p.Needed(ahead))
	}
}

// Needed returns how many replicas the load needs so many intervals after the last, at least 1.
func (p *Planner) Needed(ahead int) int {
	return max(p.Least, count(p.Expect(ahead)*p.Margin(), p.Capacity*p.Target))
}

// Expect returns the rate that is expected so many intervals after the last, without a margin.
func (p *Planner) Expect(ahead int) float64 { return p.forecaster.Expect(ahead) }

// Margin returns the factor that replicas are planned to bear beyond what is expected.
func (p *Planner) Margin() float64 { return p.forecaster.Margin(p.Quantile) }

// count is how many replicas bear the rate at so much each.
func count(rate, each float64) int { return int(math.Ceil(rate/each - 1e-9)) }
