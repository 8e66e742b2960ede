package qualitycmd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gearshift/env/evaluation"
	"gearshift/internal/output"
	"gearshift/internal/quality"
	"gearshift/internal/quality/labels"
	"gearshift/internal/scenario"
)

// checkOptions are the flags of check.
type checkOptions struct {
	data     []string
	scenario string
	seed     uint64
	plot     picture
	format   format
}

// checked is what check prints.
type checked struct {
	Predictor string `json:"predictor"`
	*quality.Check
	// Scenario is what of the scenario does not go with the labels.
	Scenario []string `json:"scenario,omitempty"`
}

func newCheck() *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check --data FILE... --quality NAME[@VERSION]",
		Short: "Judge a stored predictor by labelled prompts that it was not fitted to",
		Long: `Judge a stored predictor by labelled prompts that it was not fitted to: gain and calibration as fit
reports them, how sure it is of these prompts, and what differs from its own report by more than
chance explains.

With --scenario, also say which variants have no scores, by their names or scores_as, and which
declared qualities lie more than .05 from the mean scores.`,
	}
	store := storeFlag(c)
	load := predictorFlag(c, store)
	dataFlag(c, &o.data, "`FILE` of labelled prompts, JSON lines or CSV; more may follow")
	f := c.Flags()
	f.StringVar(&o.scenario, "scenario", "", "built-in `name or file` of the scenario to compare with (default: none)")
	f.Uint64Var(&o.seed, "seed", 1, "draws the intervals' samples")
	o.plot.flag(f)
	o.format.flag(f)
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(load, c.OutOrStdout()) }
	return c
}

func (o *checkOptions) run(load loader, w io.Writer) error {
	asJSON, err := o.format.json()
	if err == nil {
		err = o.plot.check()
	}
	if err != nil {
		return err
	}
	fitted, entry, err := load()
	if err != nil {
		return err
	}
	set, err := labels.Read(o.data, labels.Options{})
	if err != nil {
		return err
	}
	done := checked{Predictor: entry.Ref().String()}
	if done.Check, err = quality.CheckOn(fitted, entry, set, o.seed); err != nil {
		return err
	}
	if o.scenario != "" {
		s, err := scenario.Load(o.scenario)
		if err != nil {
			return err
		}
		done.Scenario = quality.Against(s, set)
	}
	drawn := o.plot.draw(done.Report)
	if asJSON {
		return errors.Join(output.JSON(w, done), drawn)
	}
	done.print(w, o.scenario)
	return drawn
}

// print prints it for people.
func (c *checked) print(w io.Writer, scenario string) {
	if len(c.Seen) > 0 {
		fmt.Fprintf(w, "%s was fitted to %s: these figures flatter it\n\n", c.Predictor, strings.Join(c.Seen, ", "))
	}
	fmt.Fprintf(w, "%s on %d labelled prompts: %.2f sure in the mean, less than half sure of %.0f %%\n\n", c.Predictor, c.Report.Prompts, c.Sure, 100*c.Strange)
	printReport(w, c.Report)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tMEAN SCORE\tIN ITS REPORT")
	for _, d := range c.Mean {
		word := ""
		if d.Drifted {
			word = "\tdiffers by more than chance explains"
		}
		fmt.Fprintf(t, "%s\t%.3f\t%.3f%s\n", d.Name, d.Mean, d.Was, word)
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, text := range c.Scenario {
		fmt.Fprintf(w, "%s: %s\n", scenario, text)
	}
	if scenario != "" && len(c.Scenario) == 0 {
		fmt.Fprintf(w, "%s: every variant has scores, and each declared quality is near the mean score\n", scenario)
	}
	if was := c.Was; was != nil {
		now := c.Report.Pair(was.Small, was.Large)
		word := c.Gain
		switch {
		case word == "unknown":
			word = fmt.Sprintf("unknown, of %d prompts with scores of both", now.Prompts)
		case now.Gain.Hi < 0:
			word += ", and worse than random on these"
		}
		fmt.Fprintf(w, "%s or %s by prompt: %s over random, in its report %s: %s\n", was.Small, was.Large, evaluation.Signed(now.Gain), evaluation.Signed(was.Gain), word)
	}
}
