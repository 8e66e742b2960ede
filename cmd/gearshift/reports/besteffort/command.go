package besteffort

import (
	"context"
	"errors"
	"io"
	"strings"

	"gearshift/cmd/gearshift/reports"
	"gearshift/env/evaluation/report"
)

// Report is the report of best-effort serving.
func Report() reports.Report {
	return reports.Report{
		Name:  "best-effort",
		Short: "Repeat the evaluation of best-effort serving, and more, as one report",
		Long: `Train the policies of "Learned Best-Effort LLM Serving" (arXiv 2401.07886), tune the
rules that they must beat, evaluate all of them as the paper does and beyond, and
write one page: DIR/report.html, with report.json, a CSV for each table and figure,
surface.csv for the notebook, and the points and the picture of utility against time
near the peak: frontier.json and frontier.svg.

With --only frontier it makes that part alone, on any scenario of two sizes or more, and
prints it as a Markdown table. --trained gives it a policy that is in --store already;
--points draws it again from the frontier.json of an earlier report.

The policies stay in DIR/policies.db. Running it again uses those that are there, and
continues an interrupted training.`,
		Example: "--out report",
		Flags:   flags,
	}
}

// flags declares the report's flags.
func flags(f *reports.Flags) reports.Make {
	var o Options
	f.Scenario(&o.Scenario)
	f.BoolVar(&o.Quick, "quick", false, "the quick preset, few seeds and coarse references: minutes, not hours")
	f.StringVar(&o.Preset, "preset", "", "training preset (default: default, or quick with --quick)")
	f.IntVar(&o.Seeds, "seeds", 0, "evaluation runs of each policy on each workload (default 20, or 3 with --quick)")
	f.IntVar(&o.TrainingSeeds, "training-seeds", 0, "policies trained from different seeds (default 5, or 1 with --quick)")
	f.IntVar(&o.Longer, "longer", 0, "also train that many times as long (default 4, or 1, not at all, with --quick)")
	f.BoolVar(&o.Ablations, "ablations", false, "also train the quick preset with each of its ingredients changed, three times each")
	f.StringVar(&o.Only, "only", "", "the one `section` to make: "+onlyOnes(true))
	f.StringArrayVar(&o.Trained, "trained", nil, "`OBJECTIVE=REF` of a policy in --store that the frontier uses in place of training one, repeatable; an objective is "+strings.Join(frontierObjectives, ", "))
	f.StringVar(&o.Points, "points", "", "`file` frontier.json of an earlier report: draw it, and play nothing")
	f.Store(&o.Store)
	return func(ctx context.Context, out string, by reports.Program, stderr io.Writer) (*report.Report, error) {
		if err := refuseIdle(f, &o); err != nil {
			return nil, err
		}
		o.Out = out
		return makeReport(ctx, o, by, stderr)
	}
}

// refuseIdle refuses flags that would change nothing.
func refuseIdle(f *reports.Flags, o *Options) error {
	var idle error
	if o.Points != "" {
		idle = f.Refuse("with --points, which plays nothing", "scenario", "quick", "preset", "seeds", "trained")
	}
	if o.Points != "" || o.Only != "" {
		idle = errors.Join(idle, f.Refuse("for the "+frontierName+" alone", "training-seeds", "longer", "ablations"))
	}
	if len(o.Trained) == 0 {
		idle = errors.Join(idle, f.Refuse("without --trained", "store"))
	}
	return idle
}
