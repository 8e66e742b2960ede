package evalcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/env/evaluation"
	"gearshift/env/planner"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// boundOptions are the flags of bound.
type boundOptions struct {
	scenario, store, format, quality string
	policies, workloads              []string
	seeds, requests                  int
	horizon                          time.Duration
	passes                           int
	fluidOnly                        bool
}

func NewBoundCommand() *cobra.Command {
	o := boundOptions{horizon: planner.DefaultHorizon, passes: 1, policies: []string{"threshold", "slackfit"}}
	c := &cobra.Command{
		Use:   "bound",
		Short: "Measure how much better a policy could be",
		Long: `Play policies on workloads over the evaluation seeds, and over each a clairvoyant,
which tries each choice on the true future before it makes it. Next to them stands the
fluid bound, which no policy can exceed at a steady rate. Where the rate is not known, or
the workload departs from the scenario (+outputs, +gpu, +lost), there is none.
"Bounds" in docs/evaluation.md explains each of them.

Policies:   ` + policies.Forms + `
Workloads:  ` + workloads.Forms,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.fluidOnly {
				if err := cli.RefuseFlags(c.Flags(), "with --fluid", "policy", "store", "horizon", "passes"); err != nil {
					return err
				}
			}
			return runBound(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	cli.ScenarioFlag(c, &o.scenario)
	cli.StoreFlag(c, &o.store)
	f.StringArrayVar(&o.policies, "policy", o.policies, "`REF` of a base, repeatable")
	f.StringArrayVar(&o.workloads, "workload", []string{"u1", "u2"}, "`W`, repeatable")
	f.IntVar(&o.seeds, "seeds", 4, "runs of each policy on each workload")
	f.IntVar(&o.requests, "requests", 3000, "in a run (the stable workload lasts its phase instead)")
	f.DurationVar(&o.horizon, "horizon", o.horizon, "of the clairvoyant: how much of the future has arrivals")
	f.IntVar(&o.passes, "passes", o.passes, "of the clairvoyant over each episode, each improving on the one before")
	f.BoolVar(&o.fluidOnly, "fluid", false, "the fluid bound alone, which takes no simulation")
	qualityFlag(c, &o.quality)
	f.StringVar(&o.format, "format", "table", "table, json")
	return c
}

func (o *boundOptions) validate() error {
	return cmp.Or(
		cli.CheckSeeds("--seeds", o.seeds),
		cli.FaultIf(o.requests < 1, "--requests %d: at least 1 is needed", o.requests),
		cli.FaultIf(o.passes < 1, "--passes %d: at least 1 is needed", o.passes),
		cli.FaultIf(o.horizon < 0, "a horizon of %v lies in the past", o.horizon),
		cli.FaultIf(!slices.Contains([]string{"table", "json"}, o.format), "--format %q: want one of table, json", o.format),
	)
}

// BoundReport is what bound prints as JSON.
type BoundReport struct {
	Scenario string              `json:"scenario"`
	Seeds    int                 `json:"seeds"`
	Rows     []policies.BoundRow `json:"rows"`
	// Fluid is the bound on each workload whose rates are known and which is as the
	// scenario declares.
	Fluid []policies.FluidLimit `json:"fluid"`
}

func runBound(ctx context.Context, o boundOptions, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	if err := policies.Predicting(s, &checkpoints.Store{Path: o.store}, o.quality); err != nil {
		return err
	}
	work, err := s.Evaluated(o.workloads, o.requests)
	if err != nil {
		return err
	}
	notesOf(work, stderr)
	if o.fluidOnly {
		o.policies = nil
	}
	warn := func(text string) { fmt.Fprintln(stderr, "warning:", text) }
	list, err := references(s, &o, warn)
	if err != nil {
		return err
	}
	plan := evaluation.Plan{Workloads: work}
	for _, c := range list {
		plan.Contestants = append(plan.Contestants, c.contestant)
	}
	if err := plan.Playable(); err != nil { // now, and not when others have been played
		return err
	}
	report := BoundReport{Scenario: s.Name, Seeds: o.seeds}
	if report.Fluid, err = policies.FluidBound(ctx, s, work, workloads.Seeds(workloads.Evaluation, o.seeds)); err != nil {
		return err
	}
	if o.fluidOnly && len(report.Fluid) == 0 {
		return fmt.Errorf("--fluid: there is no bound on %s: want known rates, such as poisson:4, and neither +outputs nor +gpu nor +lost", strings.Join(o.workloads, ", "))
	}
	for i, c := range list {
		rows, err := policies.PlayBound(ctx, c.contestant, work, workloads.Seeds(workloads.Evaluation, o.seeds))
		if err != nil {
			return err
		}
		for j := range rows {
			rows[j].Base = c.base
		}
		report.Rows = append(report.Rows, rows...)
		if output.IsTerminal(stderr) {
			fmt.Fprintf(stderr, "\r\x1b[Kplayed %d of %d", i+1, len(list))
		}
	}
	if output.IsTerminal(stderr) {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	if o.format == "json" {
		return output.JSON(stdout, report)
	}
	return report.writeTable(stdout)
}

// reference is a policy, and the base that it belongs to.
type reference struct {
	base       string
	contestant evaluation.Contestant
}

// references returns each policy on the whole fleet, followed by its clairvoyant.
func references(s *scenario.Scenario, o *boundOptions, warn func(string)) ([]reference, error) {
	var list []reference
	for _, ref := range o.policies {
		base, err := policies.OnWholeFleet(s, &policies.Source{Store: &checkpoints.Store{Path: o.store}}, ref, warn)
		if err != nil {
			return nil, err
		}
		list = append(list,
			reference{base.Name, base},
			reference{base.Name, policies.Clairvoyant(base, planner.ClairvoyantOptions{Horizon: o.horizon, Passes: o.passes})})
	}
	return list, nil
}

// writeTable prints the rows workload by workload, the fluid bound first.
func (r *BoundReport) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKLOAD\tPOLICY\tUTILITY (95 %)\tWINDOWS ≥ 1.00/.99/.98/.96/.94\tms/DECISION\tREQUESTS/s")
	for _, name := range r.workloads() {
		for _, x := range r.Fluid {
			if x.Workload == name {
				label := "fluid bound"
				if !x.Steady {
					label = "fluid, rate by rate"
				}
				fmt.Fprintf(t, "%s\t%s\t%.4f\t\t\t\n", name, label, x.Utility)
			}
		}
		for _, x := range r.Rows {
			if x.Workload != name {
				continue
			}
			var windows []string
			for _, level := range evaluation.WindowLevels {
				windows = append(windows, fmt.Sprintf("%.0f", x.Windows[evaluation.LevelName(level)]))
			}
			fmt.Fprintf(t, "%s\t%s\t%.4f (%.4f–%.4f)\t%s\t%.3g\t%.0f\n", name, x.Policy,
				x.Utility.Mean, x.Utility.Lo, x.Utility.Hi, strings.Join(windows, " "), x.MSPerDecision, x.SimRequestsPerS)
		}
	}
	return t.Flush()
}

// workloads lists the names in order of first appearance.
func (r *BoundReport) workloads() []string {
	var names []string
	for _, x := range r.Rows {
		names = append(names, x.Workload)
	}
	for _, x := range r.Fluid {
		names = append(names, x.Workload)
	}
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}
