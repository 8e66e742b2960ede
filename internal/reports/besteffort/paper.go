// Package besteffort repeats the evaluation of "Learned Best-Effort LLM Serving" (arXiv
// 2401.07886), and more: it has policies trained and rules tuned, plays them on the
// paper's workloads and beyond, and lays the numbers out as one report, next to the
// paper's own. Each section of the report has a file: rules, stable, unstable, frontier,
// shift, beyond, others, training.
package besteffort

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/objective"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// paper is the making of one report.
type paper struct {
	options  Options
	program  reports.Program
	scenario *scenario.Scenario
	store    *checkpoints.Store
	seeds    []uint64
	stderr   io.Writer
	// Policies, as references into the store.
	hard, soft, deadlines string
	rules                 []string                       // tuned, the best first
	windows               string                         // the rule tuned for windows near peak performance
	bestFor               map[objective.Objective]string // the rules that searches have found
	tuned                 []evaluation.Best
	cache                 map[string]rows
	frontier              *Frontier
	headline              []string // the verdict's sentences
}

// makeReport makes it. It is in the form of [reports.Make], except for the options.
func makeReport(ctx context.Context, o Options, by reports.Program, stderr io.Writer) (r *report.Report, err error) {
	defer ended(&err)
	check(o.defaults())
	p := &paper{
		options: o, program: by, stderr: stderr,
		store: &checkpoints.Store{Path: filepath.Join(o.Out, "policies.db")},
		seeds: workloads.Seeds(workloads.Evaluation, o.Seeds),
		cache: map[string]rows{},
	}
	p.open()
	check(reports.Begin(o.Out))
	return p.made(ctx), nil
}

// open loads the scenario, or the points that need none.
func (p *paper) open() {
	if p.options.Points != "" {
		p.frontier = must(readFrontier(p.options.Points))
		return
	}
	p.scenario = must(scenario.Load(p.options.Scenario))
	fits := suitable
	if p.options.Only != "" {
		fits = severalSizes
	}
	check(fits(p.scenario, p.options.Preset))
	for by := range p.options.trained { // before hours of training
		p.given(by)
	}
}

// made returns the report that the options ask for.
func (p *paper) made(ctx context.Context) *report.Report {
	switch {
	case p.options.Points != "":
		return p.frontierReport()
	case p.options.Only != "":
		return sectionNamed(p.options.Only).alone(p, ctx)
	}
	p.prepare(ctx)
	r := p.report(ctx)
	r.Files = append(must(p.frontier.files()), p.surface())
	return r
}

// repeat returns what makes the same report.
func (p *paper) repeat() string { return p.options.command() + "\ngearshift " + p.program.Version }

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
	p.windows = p.ruleFor(ctx, objective.NearPeak)
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

// report gathers the sections.
func (p *paper) report(ctx context.Context) *report.Report {
	r := &report.Report{
		Title:    "Learned best-effort serving: the policy, the rules, and the best possible",
		Scenario: simulated(p.scenario.Name, p.options.Preset, p.options.Seeds),
		Repeat:   p.repeat(),
	}
	for _, section := range sections() {
		if section.slow && p.options.Quick {
			continue
		}
		part := section.make(p, ctx)
		r.Sections = append(r.Sections, part)
	}
	r.Verdict = p.headline
	return r
}
