package placement

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"gearshift/checkpoints"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/placements"
	"gearshift/internal/training/policies"
	"gearshift/router/placement/layouts"
	"gearshift/workloads"
)

// setting is a fleet under a law and a workload.
type setting struct {
	fleet, law int // indexes
	workload   string
	phase      float64 // of a steady rate, in seconds; 0 is the scenario's
}

// played holds what a run comes to.
type played struct {
	utility         float64
	changes, failed float64 // of layouts; those that failed
	hours           float64
}

// open prepares a setting. Where nothing decides, no law matters unless a host is lost.
func (p *study) open(x setting) (int, func(context.Context, int) (played, error), error) {
	f := &p.fleets[x.fleet]
	s, err := p.fleet(f, &p.laws[x.law])
	if err != nil {
		return 0, nil, err
	}
	if x.phase > 0 {
		s.Evaluation.PhaseS = x.phase
	}
	ref := placements.Routing(p.scenario)
	if f.alone != "" {
		ref = "static:" + f.alone
	}
	c, err := policies.Contestant(s, &policies.Source{Store: &checkpoints.Store{Path: p.store}}, ref, func(string) {})
	if err != nil {
		return 0, nil, err
	}
	work, err := p.workload(s, x.workload)
	if err != nil {
		return 0, nil, err
	}
	return len(p.seeds), func(ctx context.Context, i int) (played, error) {
		var world *env.Environment
		plan := evaluation.Plan{
			Contestants: []evaluation.Contestant{c}, Workloads: work, Seeds: p.seeds[i : i+1],
			Pacing:  evaluation.Pacing{Cores: 1},
			Observe: func(_ evaluation.Run, e *env.Environment) { world = e },
		}
		results, err := plan.Evaluate(ctx)
		if err != nil {
			return played{}, err
		}
		r := played{utility: results[0].Utility.Mean, hours: world.Simulator().Now().Hours()}
		if served := results[0].Served; served != nil {
			r.changes, r.failed = served.Controllers["layouts changed"], served.Controllers["changes failed"]
		}
		return r, nil
	}, nil
}

// fleet returns the scenario with what decides on it, or with layouts that stay.
func (p *study) fleet(f *fleet, l *law) (s *scenario.Scenario, err error) {
	s = l.on(p.scenario)
	if f.decides != "" {
		return s, policies.Placing(s, &checkpoints.Store{Path: p.store}, f.decides)
	}
	if f.alone != "" {
		return s, nil
	}
	if s, err = starting(s, f.layout); err == nil {
		s.Chooser = layouts.Stay
	}
	return s, err
}

// aDay names the workload of a recorded day.
const aDay = "day"

// workload returns what a name stands for.
func (p *study) workload(s *scenario.Scenario, name string) ([]evaluation.Workload, error) {
	if name != aDay {
		return s.Evaluated([]string{name}, p.requests)
	}
	phases, each := daily(s, p.Quick)
	var text []string
	for _, rate := range phases {
		text = append(text, fmt.Sprintf("%gx%g", rate, each.Seconds()))
	}
	return s.Evaluated([]string{"schedule:" + strings.Join(text, ",")}, 0)
}

// busiest is the highest rate of the day as a share of the highest of the sweep.
const busiest = 2.0 / 3

// daily returns the rates of the recorded day, scaled to the scenario, and how long each lasts.
func daily(s *scenario.Scenario, quick bool) (rates []float64, each time.Duration) {
	each, rates = 30*time.Second, workloads.DailyRates()
	if quick {
		each = 5 * time.Second
	}
	most, sweep := 0.0, s.Evaluation.StableRates
	for _, r := range rates {
		most = max(most, r)
	}
	for i := range rates {
		rates[i] = math.Round(100*rates[i]/most*busiest*sweep[len(sweep)-1]) / 100
	}
	return rates, each
}

func utilities(runs []played) []float64 {
	return reports.Values(runs, func(r played) float64 { return r.utility })
}

// perHour returns the changes of layouts in an hour of the runs.
func perHour(runs []played) float64 {
	changes, hours := 0.0, 0.0
	for _, r := range runs {
		changes, hours = changes+r.changes, hours+r.hours
	}
	return changes / max(hours, 1e-9)
}

// failures returns the changes that failed, of all runs.
func failures(runs []played) (sum float64) {
	for _, r := range runs {
		sum += r.failed
	}
	return sum
}
