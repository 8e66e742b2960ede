// Package besteffort repeats the evaluation of "Learned Best-Effort LLM Serving" (arXiv
// 2401.07886), and more: it has policies trained and rules tuned, plays them on the
// paper's workloads and beyond, and lays the numbers out as one report, next to the
// paper's own. Each section of the report has a file: rules, stable, unstable, frontier,
// shift, beyond, others, training.
package besteffort

import (
	"context"
	"fmt"
	"path/filepath"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// paper is the making of one report.
type paper struct {
	*reports.Run
	options  options
	scenario *scenario.Scenario
	store    *checkpoints.Store
	seeds    []uint64
	// Policies, as references into the store.
	hard, soft, deadlines string
	rules                 []string                        // tuned, the best first
	windows               string                          // the rule tuned for windows near peak performance
	bestFor               map[evaluation.Objective]string // the rules that searches have found
	tuned                 []evaluation.Best
	cache                 map[string]rows
	frontier              *Frontier
}

// check loads the scenario, or the points that need none.
func (p *paper) check() (err error) {
	defer ended(&err)
	check(p.options.defaults(p.Quick))
	p.store = &checkpoints.Store{Path: filepath.Join(p.Out, "policies.db")}
	p.seeds = workloads.Seeds(workloads.Evaluation, p.Seeds)
	if p.options.Points != "" {
		p.frontier, p.Only = must(readFrontier(p.options.Points)), []string{frontierName}
		return nil
	}
	p.scenario = must(scenario.Load(p.options.Scenario))
	fits := suitable
	if p.alone() {
		fits = severalSizes
	}
	check(fits(p.scenario, p.options.Preset))
	for by := range p.options.trained { // before hours of training
		p.given(by)
	}
	return nil
}

// begin makes the policies and rules that sections other than the frontier need.
func (p *paper) begin(ctx context.Context) (r *report.Report, err error) {
	defer ended(&err)
	r = &report.Report{Title: "Learned best-effort serving: the policy, the rules, and the best possible"}
	if p.alone() {
		return r, nil // the frontier heads it
	}
	r.Scenario = simulated(p.scenario.Name, p.options.Preset, p.Seeds)
	p.prepare(ctx)
	if len(p.Only) == 0 {
		r.Files = []report.File{p.surface()}
	}
	return r, nil
}

func simulated(scenario, preset string, seeds int) string {
	return fmt.Sprintf("Simulated under profile %s; preset %s, %d evaluation seeds.", scenario, preset, seeds)
}

// prepare trains the policies and tunes the rules.
func (p *paper) prepare(ctx context.Context) {
	p.hard = p.trained(ctx, "hard", p.scenario, p.options.Preset, 1, "")
	soft, deadlines := lengths(p.options.Preset)
	p.soft = p.trained(ctx, "soft", soft.of(softened(p.scenario), p.options.Preset), p.options.Preset, 1, p.hard)
	other := deadlines.of(otherDeadlines(p.scenario, paperDeadlines), p.options.Preset)
	p.deadlines = p.trained(ctx, "deadlines", other, p.options.Preset, 1, "")
	p.tune(ctx, thorough)
	p.windows = p.ruleFor(ctx, evaluation.NearPeak)
}

// length is that of a training, as a share of the hard policy's.
type length struct{ part, whole int }

// lengths returns those of the soft policy, which begins where the hard one ends, and of
// that for other deadlines. Under the preset paper they are the paper's own: 685,000
// and 800,000 iterations compared with 1.2 million (LBE-15, LBE-5).
func lengths(preset string) (soft, deadlines length) {
	if preset == "paper" {
		return length{685, 1200}, length{800, 1200}
	}
	return length{1, 4}, length{1, 1}
}

func (l length) decisions(of scenario.Preset) int { return of.Decisions * l.part / l.whole }

// of returns the scenario whose preset has that length.
func (l length) of(s *scenario.Scenario, preset string) *scenario.Scenario {
	return ablated(s, preset, ablation{change: func(_ *scenario.Scenario, p *scenario.Preset) {
		p.Decisions = l.decisions(*p)
	}})
}

// paperDeadlines are the factors of the paper's section 4.7 (LBE-5).
var paperDeadlines = map[string]float64{"openbookqa": 2, "copa": 0.8}
