package qualitycmd

import (
	"errors"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/quality"
)

func newShow() *cobra.Command {
	var form cli.Format
	var plot picture
	c := &cobra.Command{
		Use: "show NAME[@VERSION]", Short: "Show what is known of a stored predictor", Args: cli.One,
		Long: `Show a stored predictor: what it was fitted to, and how well it predicted prompts that it had not
seen. NAME alone is its version in production, or the newest if none is.`,
	}
	store := storeFlag(c)
	form.Flag(c, "table")
	plot.flag(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := form.JSON()
		if err == nil {
			err = plot.check()
		}
		if err != nil {
			return err
		}
		ref, err := checkpoints.ParsePredictorRef(args[0])
		if err != nil {
			return err
		}
		fitted, entry, err := quality.Load(store(), ref) // one that cannot be read is reported
		if err != nil {
			return err
		}
		s, err := quality.Describe(entry)
		if err != nil {
			return err
		}
		drawn := plot.draw(fitted.Report)
		if asJSON {
			return errors.Join(output.JSON(c.OutOrStdout(), s), drawn)
		}
		s.Write(c.OutOrStdout())
		return drawn
	}
	return c
}
