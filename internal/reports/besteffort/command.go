package besteffort

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gearshift/env/evaluation/report"
	"gearshift/env/objective"
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

// frontierName is the section whose points a file may hold.
const frontierName = "frontier"

// section is a part of the report.
type section struct {
	name string
	make func(*paper, context.Context) report.Section
	// slow says that --quick leaves it out.
	slow bool
	// alone makes a report of this section, for --only, without the policies and rules of the
	// others. It is nil where the section needs those. About says what it shows.
	alone func(*paper, context.Context) *report.Report
	about string
}

// sections returns all that a report has, in its order. Some use what earlier ones have played.
func sections() []section {
	return []section{
		{name: "rules", make: (*paper).rulesSection},
		{name: "ceiling", make: (*paper).ceilingSection},
		{name: "stable", make: (*paper).stableSection},
		{name: "unstable", make: (*paper).unstableSection},
		{name: frontierName, make: (*paper).frontierSection, alone: (*paper).frontierAlone, about: "utility against time near the peak"},
		{name: "soft", make: (*paper).softSection},
		{name: "shift", make: (*paper).shiftSection},
		{name: "hardware", make: (*paper).hardwareSection},
		{name: "deadlines", make: (*paper).deadlineSection},
		{name: "beyond", make: (*paper).beyondSection},
		{name: "others", make: (*paper).othersSection, slow: true}, // other fleets take long
		{name: "training", make: (*paper).trainingSection},
	}
}

// sectionNamed returns the section that --only may name; nil if there is none of the name.
func sectionNamed(name string) *section {
	for _, s := range sections() {
		if s.name == name && s.alone != nil {
			return &s
		}
	}
	return nil
}

// onlyOnes returns the names that --only may have, each followed by what it shows if about is set.
func onlyOnes(about bool) string {
	var list []string
	for _, s := range sections() {
		switch {
		case s.alone == nil:
		case about:
			list = append(list, s.name+", "+s.about)
		default:
			list = append(list, s.name)
		}
	}
	return strings.Join(list, "; ")
}

// Options are the flags of the command; what is zero has a default.
type Options struct {
	Scenario, Out, Preset string
	Seeds, TrainingSeeds  int
	Longer                int
	Quick, Ablations      bool
	// Only, if set, is the one section to make: see [sections].
	Only string
	// Trained are policies for the frontier that need not be trained, as OBJECTIVE=REF
	// into Store.
	Trained []string
	Store   string
	// Points is the file of a frontier that was played before, to be drawn again.
	Points string

	trained map[objective.Objective]string
}

func (o *Options) defaults() error {
	preset, seeds, training, longer := "default", 20, 5, 4
	if o.Quick {
		preset, seeds, training, longer = "quick", 3, 1, 1
	}
	if o.Preset == "" {
		o.Preset = preset
	}
	if o.Seeds == 0 {
		o.Seeds = seeds
	}
	if o.TrainingSeeds == 0 {
		o.TrainingSeeds = training
	}
	if o.Longer == 0 {
		o.Longer = longer
	}
	if o.Points != "" {
		o.Only = frontierName
	}
	if o.Only != "" && sectionNamed(o.Only) == nil {
		return fmt.Errorf("--only %q: the one section that can be made alone is %s", o.Only, onlyOnes(false))
	}
	if o.Seeds < 2 || o.TrainingSeeds < 1 || o.Longer < 1 {
		return fmt.Errorf("--seeds %d, --training-seeds %d and --longer %d: at least 2, 1 and 1 are needed", o.Seeds, o.TrainingSeeds, o.Longer)
	}
	return o.readTrained()
}

// readTrained reads which policies are given.
func (o *Options) readTrained() error {
	o.trained = map[objective.Objective]string{}
	for _, text := range o.Trained {
		name, ref, given := strings.Cut(text, "=")
		by, err := objective.Parse(name)
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

// command returns what makes the same report.
func (o *Options) command() string {
	c := fmt.Sprintf("gearshift paper --scenario %s --preset %s --seeds %d", o.Scenario, o.Preset, o.Seeds)
	if o.Only != "" {
		c += " --only " + o.Only
	} else {
		c += fmt.Sprintf(" --training-seeds %d --longer %d", o.TrainingSeeds, o.Longer)
	}
	if o.Quick {
		c += " --quick"
	}
	if o.Ablations {
		c += " --ablations"
	}
	for _, given := range o.Trained {
		c += " --trained " + given
	}
	if len(o.Trained) > 0 {
		c += " --store " + o.Store
	}
	return c + " --out DIR"
}
