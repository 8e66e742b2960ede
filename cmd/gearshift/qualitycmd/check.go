package qualitycmd

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
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
	format   cli.Format
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
	o.format.Flag(c, "table")
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(load, c.OutOrStdout()) }
	return c
}

func (o *checkOptions) run(load loader, w io.Writer) error {
	asJSON, err := o.format.JSON()
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
	done, err := quality.CheckOn(fitted, entry, set, o.seed)
	if err != nil {
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
	done.Write(w, o.scenario)
	return drawn
}
