package besteffort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/internal/reports"
)

// Report returns the report of best-effort serving.
func Report() reports.Report {
	return reports.Report{
		Name:  "best-effort",
		Short: "Repeat the evaluation of best-effort serving, and more, as one report",
		Long: `Train the policies of "Learned Best-Effort LLM Serving" (arXiv 2401.07886), tune the
rules that they must beat, evaluate all of them as the paper does and beyond, and
write one page: DIR/report.html, with report.json, a CSV for each table and figure,
surface.csv for the notebook, and the points and the picture of utility against time
near the peak: frontier.json and frontier.svg.

--only frontier makes that part alone, on any scenario of two sizes or more, and prints
it as a Markdown table. --trained gives it a policy that is in --store already; --points
draws it again from the frontier.json of an earlier report.

The policies stay in DIR/policies.db. Running it again uses those that are there, and
continues an interrupted training.`,
		Example: "--out report",
		Quick:   "the quick preset, few seeds and coarse references: minutes, not hours",
		Seeds:   reports.Seeds{Usual: 20, Quick: 3, Of: "evaluation runs of each policy on each workload"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			p := &paper{Run: r, cache: map[string]rows{}}
			o := &p.options
			f.Scenario(&o.Scenario)
			f.StringVar(&o.Preset, "preset", "", "training preset (default: default, or quick with --quick)")
			f.IntVar(&o.TrainingSeeds, "training-seeds", 0, "policies trained from different seeds (default 5, or 1 with --quick)")
			f.IntVar(&o.Longer, "longer", 0, "also train that many times as long (default 4, or 1, not at all, with --quick)")
			f.BoolVar(&o.Ablations, "ablations", false, "also train the quick preset with each of its ingredients changed, three times each")
			f.StringArrayVar(&o.Trained, "trained", nil, "`OBJECTIVE=REF` of a policy in --store that the frontier uses in place of training one, repeatable; an objective is "+strings.Join(frontierObjectives, ", "))
			f.StringArrayVar(&o.Traces, "trace", nil, "`FILE[@RATE]` of recorded requests to train and judge policies on, for the section traffic, repeatable")
			f.StringVar(&o.Points, "points", "", "`file` frontier.json of an earlier report: draw it, and play nothing")
			f.Store(&o.Store)
			return p.study(f.Refuse)
		},
	}
}

// refuseIdle refuses flags that would change nothing.
func (p *paper) refuseIdle(refuse func(so string, names ...string) error) error {
	var idle error
	if p.options.Points != "" {
		idle = refuse("with --points, which plays nothing", "scenario", "quick", "preset", "seeds", "trained", "only")
	}
	if p.options.Points != "" || p.alone() {
		idle = errors.Join(idle, refuse("for "+strings.Join(append(p.Only, frontierName)[:max(1, len(p.Only))], " and ")+" alone", "training-seeds", "longer", "ablations"))
	}
	if len(p.options.Trained) == 0 {
		idle = errors.Join(idle, refuse("without --trained", "store"))
	}
	return idle
}

// frontierName is the section whose points a file may hold. Alone it needs no policies and rules of others.
const frontierName = "frontier"

// The sections that make the policies that they need.
const trafficName, distortedName = "traffic", "distorted"

// alone reports whether all that is asked for makes the policies that it needs.
func (p *paper) alone() bool {
	return len(p.Only) > 0 && !slices.ContainsFunc(p.Only, func(name string) bool {
		return name != frontierName && name != trafficName && name != distortedName
	})
}

// study lists the sections. Some use what earlier ones have played.
func (p *paper) study(refuse func(so string, names ...string) error) reports.Study {
	section := func(id, title string, make func(context.Context, *reports.Part)) reports.Section {
		return reports.Section{ID: id, Title: title, Make: func(ctx context.Context, out *reports.Part) (err error) {
			defer ended(&err)
			make(ctx, out)
			return nil
		}}
	}
	others := section("others", "Other fleets, the same hyper-parameters", p.othersSection)
	others.Slow = true
	traffic := section(trafficName, "Trained on recorded traffic", p.trafficSection)
	traffic.Needs = "trace"
	distorted := section(distortedName, "Engines that do not follow the profile", p.distortedSection)
	distorted.Slow = true
	return reports.Study{
		Run: p.Run, Open: p.begin,
		Check: func() error {
			if err := p.refuseIdle(refuse); err != nil {
				return err
			}
			return p.check()
		},
		Sections: []reports.Section{
			section("rules", "The policy against every rule", p.rulesSection),
			section("ceiling", "The distance to the best possible", p.ceilingSection),
			section("stable", "Stable workload, hard deadlines", p.stableSection),
			section("unstable", "Unpredictable workloads, hard deadlines", p.unstableSection),
			section(frontierName, "Utility against time near the peak", p.frontierSection),
			section("soft", "Stable workload, soft deadlines", p.softSection),
			section("shift", "One task at a time, without retraining", p.shiftSection),
			section("hardware", "Hardware utility: utility per host", p.hardwareSection),
			section("deadlines", "Different deadlines", p.deadlineSection),
			section("beyond", "Beyond the paper: what training never saw", p.beyondSection),
			others,
			section("training", "Training: seeds and ingredients", p.trainingSection),
			traffic, distorted,
		},
	}
}

// options are the report's own flags; what is zero has a default.
type options struct {
	Scenario, Preset      string
	TrainingSeeds, Longer int
	Ablations             bool
	// Trained are policies for the frontier that need not be trained, as OBJECTIVE=REF
	// into Store.
	Trained []string
	Store   string
	// Traces are recorded requests that policies are trained on.
	Traces []string
	// Points is the file of a frontier that was played before, to be drawn again.
	Points string

	trained map[evaluation.Objective]string
}

func (o *options) defaults(quick bool) error {
	preset, training, longer := "default", 5, 4
	if quick {
		preset, training, longer = "quick", 1, 1
	}
	o.Preset, o.TrainingSeeds, o.Longer = cmp.Or(o.Preset, preset), cmp.Or(o.TrainingSeeds, training), cmp.Or(o.Longer, longer)
	if o.TrainingSeeds < 1 || o.Longer < 1 {
		return fmt.Errorf("--training-seeds %d and --longer %d: at least 1 is needed", o.TrainingSeeds, o.Longer)
	}
	return o.readTrained()
}

// readTrained reads which policies are given.
func (o *options) readTrained() error {
	o.trained = map[evaluation.Objective]string{}
	for _, text := range o.Trained {
		name, ref, given := strings.Cut(text, "=")
		by, err := evaluation.ParseObjective(name)
		switch {
		case !given || name == "" || ref == "":
			return fmt.Errorf("--trained %s: want an objective and a stored policy, such as near-peak=mine", text)
		case err != nil:
			return fmt.Errorf("--trained %s: %w", text, err)
		case !slices.Contains(frontierObjectives, by.String()):
			return fmt.Errorf("--trained %s: the frontier has no point %s; it has %s", text, by, strings.Join(frontierObjectives, ", "))
		}
		o.trained[by] = ref
	}
	return nil
}
