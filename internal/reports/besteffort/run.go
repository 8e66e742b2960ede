package besteffort

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// failure is an error on its way from the step that failed to [makeReport]. A section is a
// script of trainings and evaluations; the first that fails ends the report, and what called it
// has nothing to add.
type failure struct{ err error }

// must returns x, or ends the report with the error.
func must[T any](x T, err error) T {
	check(err)
	return x
}

// check ends the report if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// ended is deferred: it sets err to the error that ended the report, if one did.
func ended(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// rows are results by policy and workload, both as they were asked for.
type rows map[[2]string]evaluation.Result

// trained returns the policy of that name in the report's store.
func (p *paper) trained(ctx context.Context, name string, s *scenario.Scenario, preset string, seed uint64, from string) string {
	return p.train(ctx, reports.Training{On: s, Preset: preset, Name: name, From: from, Seed: seed})
}

// train has the policy trained, except for the scenario's name and the store, which are
// the report's.
func (p *paper) train(ctx context.Context, t reports.Training) string {
	t.Scenario, t.Store = p.options.Scenario, p.store.Path
	return must(p.Train(ctx, t))
}

// evaluate plays the policies on the workloads, over all evaluation seeds. The
// label names the scenario among the results that are kept for later sections.
func (p *paper) evaluate(ctx context.Context, label string, s *scenario.Scenario, refs, names []string) rows {
	all := rows{}
	for _, ref := range refs {
		for _, name := range names {
			key := strings.Join([]string{label, ref, name}, " ")
			kept, ok := p.cache[key]
			if !ok {
				kept = p.play(ctx, s, ref, name)
				p.cache[key] = kept
			}
			maps.Copy(all, kept)
		}
	}
	return all
}

// play evaluates one policy on one workload; a sweep gives a row for each rate
// and one for all.
func (p *paper) play(ctx context.Context, s *scenario.Scenario, ref, name string) rows {
	list, work := p.stage(s, ref, name)
	plan := evaluation.Plan{Contestants: list, Workloads: work, Seeds: p.seeds}
	results := must(plan.Evaluate(ctx))
	out := rows{}
	for _, r := range results {
		out[[2]string{ref, r.Workload}] = r
	}
	return out
}

// stage returns a policy and a workload ready to be played.
func (p *paper) stage(s *scenario.Scenario, ref, name string) ([]evaluation.Contestant, []evaluation.Workload) {
	fmt.Fprintf(p.Stderr, "evaluating %s on %s\n", ref, name)
	list := must(policies.Contestants(s, &policies.Source{Store: p.store}, []string{ref}, func(string) {})) // the report says what departs from training
	return list, must(s.Evaluated([]string{name}, s.Evaluation.Requests))
}

// sample plays runs of one policy on one workload over the first seeds.
func (p *paper) sample(ctx context.Context, s *scenario.Scenario, ref, name string, runs int) [][]evaluation.Sample {
	list, work := p.stage(s, ref, name)
	var all [][]evaluation.Sample
	for _, seed := range p.seeds[:min(runs, len(p.seeds))] {
		all = append(all, must(evaluation.Samples(ctx, &list[0], &work[0], seed)))
	}
	return all
}

// statics returns the policies that always choose one variant.
func statics(s *scenario.Scenario) []string {
	var refs []string
	for _, v := range s.Variants {
		refs = append(refs, "static:"+v.Name)
	}
	return refs
}

// largest returns the best variant of the scenario.
func largest(s *scenario.Scenario) string { return s.Variants[len(s.Variants)-1].Name }

// stableNames returns the workloads of the sweep, one for each rate.
func stableNames(s *scenario.Scenario) []string {
	var names []string
	for _, rate := range s.Evaluation.StableRates {
		names = append(names, stableName(rate))
	}
	return names
}

func stableName(rate float64) string { return fmt.Sprintf("stable:%g", rate) }

// byRate returns a series of a quantity over the rates of the sweep.
func byRate(s *scenario.Scenario, all rows, ref, name string, of func(evaluation.Result) evaluation.Interval) report.Series {
	series := report.Series{Name: name, Style: report.Line}
	for _, rate := range s.Evaluation.StableRates {
		v := of(all[[2]string{ref, stableName(rate)}])
		series.X, series.Y = append(series.X, rate), append(series.Y, v.Mean)
		series.Lo, series.Hi = append(series.Lo, v.Lo), append(series.Hi, v.Hi)
	}
	return series
}

func utilityOf(r evaluation.Result) evaluation.Interval { return r.Utility }

func perRate(label, unit string) report.Axis { return report.Axis{Label: label, Unit: unit, Log: true} }

var rateAxis = perRate("Arrival rate", "requests/s")

var utilityAxis = report.Axis{Label: "Utility per request", Range: &report.Range{Min: 0, Max: 1.02}}

// windowed returns the running mean over the last [evaluation.WindowSize] utilities.
func windowed(samples []evaluation.Sample, of func(evaluation.Sample) float64) (x, y []float64) {
	var sum float64
	for i, s := range samples {
		sum += of(s)
		if i >= evaluation.WindowSize {
			sum -= of(samples[i-evaluation.WindowSize])
		}
		if i >= evaluation.WindowSize-1 {
			x, y = append(x, float64(i+1)), append(y, sum/evaluation.WindowSize)
		}
	}
	return x, y
}

// running returns the mean over all requests so far.
func running(samples []evaluation.Sample) (x, y []float64) {
	var sum float64
	for i, s := range samples {
		sum += s.Utility
		x, y = append(x, float64(i+1)), append(y, sum/float64(i+1))
	}
	return x, y
}

// relative returns a share of peak performance, NaN if the peak is none.
func relative(s evaluation.Sample) float64 { return quotient(s.Utility, s.Peak) }

// quotient returns a / b, NaN if b is zero: a cell without a number.
func quotient(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// choices counts by task and variant.
func choices(s *scenario.Scenario, runs [][]evaluation.Sample) [][]float64 {
	share := make([][]float64, len(s.Tasks))
	for t := range share {
		share[t] = make([]float64, len(s.Variants))
		var n float64
		for _, run := range runs {
			for _, x := range run {
				if x.Task == t {
					share[t][x.Variant]++
					n++
				}
			}
		}
		for v := range share[t] {
			share[t][v] /= max(1, n)
		}
	}
	return share
}
