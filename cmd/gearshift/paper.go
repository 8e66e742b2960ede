//go:build !serveonly

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/workloads"
)

// paperOptions are the flags of paper.
type paperOptions struct {
	scenario, out, preset string
	seeds, trainingSeeds  int
	longer                int
	quick, ablations      bool
}

func newPaperCommand() *cobra.Command {
	var o paperOptions
	c := &cobra.Command{
		Use:   "paper",
		Short: "Repeat the paper's whole evaluation, and more, as one report",
		Long: `Train the policies of "Learned Best-Effort LLM Serving" (arXiv 2401.07886), tune the
rules that they must beat, evaluate all of them as the paper does and beyond, and
write one page: DIR/report.html, with report.json, a CSV for each table and figure,
and surface.csv for the notebooks.

The policies stay in DIR/policies.db. Running it again uses those that are there, and
continues an interrupted training.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return writePaper(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	scenarioFlag(c, &o.scenario)
	f.StringVar(&o.out, "out", "", "`folder` for the report (required)")
	f.BoolVar(&o.quick, "quick", false, "the quick preset, few seeds and coarse references: minutes, not hours")
	f.StringVar(&o.preset, "preset", "", "training preset (default: default, or quick with --quick)")
	f.IntVar(&o.seeds, "seeds", 0, "evaluation runs of each policy on each workload (default 20, or 3 with --quick)")
	f.IntVar(&o.trainingSeeds, "training-seeds", 0, "policies trained from different seeds (default 5, or 1 with --quick)")
	f.IntVar(&o.longer, "longer", 0, "also train that many times as long (default 4, or 1, not at all, with --quick)")
	f.BoolVar(&o.ablations, "ablations", false, "also train the quick preset with each of its ingredients changed, three times each")
	return c
}

func (o *paperOptions) defaults() error {
	if o.out == "" {
		return errors.New("--out is missing: the folder for the report")
	}
	preset, seeds, training, longer := "default", 20, 5, 4
	if o.quick {
		preset, seeds, training, longer = "quick", 3, 1, 1
	}
	if o.preset == "" {
		o.preset = preset
	}
	if o.seeds == 0 {
		o.seeds = seeds
	}
	if o.trainingSeeds == 0 {
		o.trainingSeeds = training
	}
	if o.longer == 0 {
		o.longer = longer
	}
	if o.seeds < 2 || o.trainingSeeds < 1 || o.longer < 1 {
		return fmt.Errorf("--seeds %d, --training-seeds %d and --longer %d: at least 2, 1 and 1 are needed", o.seeds, o.trainingSeeds, o.longer)
	}
	return nil
}

// command is what makes the same report.
func (o *paperOptions) command() string {
	c := fmt.Sprintf("gearshift paper --scenario %s --preset %s --seeds %d --training-seeds %d --longer %d",
		o.scenario, o.preset, o.seeds, o.trainingSeeds, o.longer)
	if o.quick {
		c += " --quick"
	}
	if o.ablations {
		c += " --ablations"
	}
	return c + " --out DIR"
}

// paper is the making of one report.
type paper struct {
	options  paperOptions
	scenario *scenario.Scenario
	store    *checkpoints.Store
	seeds    []uint64
	stderr   io.Writer
	// Policies, as references into the store.
	hard, soft, deadlines string
	rules                 []string // tuned, the best first
	windows               string   // the rule tuned for windows near peak performance
	tuned                 []evaluation.Best
	cache                 map[string]rows
	headline              []string // the verdict's sentences
}

func writePaper(ctx context.Context, o paperOptions, stdout, stderr io.Writer) error {
	if err := o.defaults(); err != nil {
		return err
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	if err := needTasks(s); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("cannot make folder for the report: %w", err)
	}
	p := &paper{
		options: o, scenario: s, stderr: stderr,
		store: &checkpoints.Store{Path: filepath.Join(o.out, "policies.db")},
		seeds: workloads.Seeds(workloads.Evaluation, o.seeds),
		cache: map[string]rows{},
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	r, err := p.report(ctx)
	if err != nil {
		return err
	}
	if err := r.Write(o.out); err != nil {
		return err
	}
	if err := p.writeSurface(); err != nil {
		return err
	}
	fmt.Fprintln(stdout, strings.Join(r.Verdict, "\n"))
	fmt.Fprintf(stdout, "report: %s\n", filepath.Join(o.out, "report.html"))
	return nil
}

// prepare trains the policies and tunes the rules.
func (p *paper) prepare(ctx context.Context) (err error) {
	if p.hard, err = p.trained(ctx, "hard", p.scenario, p.options.preset, 1, ""); err != nil {
		return err
	}
	soft, deadlines := lengths(p.options.preset)
	if p.soft, err = p.trained(ctx, "soft", soft.of(softened(p.scenario), p.options.preset), p.options.preset, 1, p.hard); err != nil {
		return err
	}
	other := deadlines.of(otherDeadlines(p.scenario, paperDeadlines), p.options.preset)
	if p.deadlines, err = p.trained(ctx, "deadlines", other, p.options.preset, 1, ""); err != nil {
		return err
	}
	if err := p.tune(ctx, thorough); err != nil {
		return err
	}
	return p.tuneForWindows(ctx)
}

// length is that of a training, as a share of the hard policy's.
type length struct{ part, whole int }

// lengths are those of the soft policy, which begins where the hard one ends, and of
// that for other deadlines. Under the preset paper they are the paper's own: 685,000
// and 800,000 iterations beside 1.2 million (LBE-15, LBE-5).
func lengths(preset string) (soft, deadlines length) {
	if preset == "paper" {
		return length{685, 1200}, length{800, 1200}
	}
	return length{1, 4}, length{1, 1}
}

// of is the scenario whose preset has that length.
func (l length) of(s *scenario.Scenario, preset string) *scenario.Scenario {
	return ablated(s, preset, ablation{change: func(_ *scenario.Scenario, p *scenario.Preset) {
		p.Decisions = p.Decisions * l.part / l.whole
	}})
}

// paperDeadlines are the factors of the paper's section 4.7 (LBE-5).
var paperDeadlines = map[string]float64{"openbookqa": 2, "copa": 0.8}

// report gathers the sections.
func (p *paper) report(ctx context.Context) (*report.Report, error) {
	r := &report.Report{
		Title:    "Learned best-effort serving: the policy, the rules, and the best possible",
		Scenario: fmt.Sprintf("Simulated under profile %s; preset %s, %d evaluation seeds.", p.scenario.Name, p.options.preset, p.options.seeds),
		Repeat:   p.options.command() + "\ngearshift " + version,
	}
	sections := []func(context.Context) (report.Section, error){
		p.rulesSection, p.ceilingSection, p.stableSection, p.unstableSection, p.softSection,
		p.shiftSection, p.hardwareSection, p.deadlineSection, p.beyondSection,
	}
	if !p.options.quick { // other fleets take long
		sections = append(sections, p.othersSection)
	}
	for _, section := range append(sections, p.trainingSection) {
		part, err := section(ctx)
		if err != nil {
			return nil, err
		}
		r.Sections = append(r.Sections, part)
	}
	r.Verdict = p.headline
	return r, nil
}
