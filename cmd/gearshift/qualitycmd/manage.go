package qualitycmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/cmd/gearshift/operate"
	"gearshift/internal/output"
	"gearshift/internal/quality"
)

// loader loads the predictor that a flag names.
type loader = func() (*quality.Fitted, checkpoints.Entry, error)

func newList() *cobra.Command {
	var form cli.Format
	c := &cobra.Command{Use: "ls", Short: "List the stored predictors", Args: cli.None}
	store := storeFlag(c)
	form.Flag(c, "table")
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := form.JSON()
		if err != nil {
			return err
		}
		entries, err := store().List()
		if err != nil {
			return err
		}
		list, rows := []*quality.Stored{}, [][]string{{"PREDICTOR", "ALIASES", "LABELS", "MODELS", "GAIN (95 %)", "STORED"}}
		for _, e := range entries {
			s, err := quality.Describe(e)
			if err != nil {
				return err
			}
			rows = append(rows, []string{output.FitEnd(s.Predictor, 28), strings.Join(s.Aliases, ","), fmt.Sprint(s.Labels), strings.Join(s.Models, ","), s.Gain(), s.Created.Format(time.DateOnly)})
			s.Report = nil // show has it
			list = append(list, s)
		}
		if asJSON {
			return output.JSON(c.OutOrStdout(), list)
		}
		var b strings.Builder
		output.Fitted(&b, rows, 3)
		_, err = fmt.Fprint(c.OutOrStdout(), b.String())
		return err
	}
	return c
}

func newPromote() *cobra.Command {
	var force bool
	var reason string
	c := &cobra.Command{
		Use: "promote NAME[@VERSION]", Short: "Put a predictor in production: serve predicts by it", Args: cli.One,
		Long: `Put a predictor in production, next to the policy that is: serve predicts by it. The gain in its report
must lie above zero with its interval. --force promotes it regardless, and keeps the reason.
NAME alone is its newest version.`,
	}
	store := storeFlag(c)
	c.Flags().BoolVar(&force, "force", false, "promote it whatever its report says; needs --reason")
	c.Flags().StringVar(&reason, "reason", "", "`why` it is promoted by force, kept with the predictor")
	c.RunE = func(c *cobra.Command, args []string) error {
		reason = strings.TrimSpace(reason)
		if force != (reason != "") {
			return errForce
		}
		ref, err := checkpoints.ParsePredictorRef(args[0])
		if err != nil {
			return err
		}
		if ref.Version == 0 && ref.Alias == "" {
			ref.Alias = checkpoints.Newest
		}
		_, entry, err := quality.Load(store(), ref) // one that cannot be read is of no use
		if err == nil && !force {
			err = quality.Admit(entry)
		}
		if err == nil {
			err = store().Promote(entry.Name, entry.Version, reason)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s is in production\n", entry.Ref())
		return err
	}
	return c
}

func newRollback() *cobra.Command {
	c := &cobra.Command{
		Use: "rollback [NAME]", Short: "Undo the last promotion of a predictor", Args: cobra.MaximumNArgs(1),
		Long: `Undo the last promotion of a predictor, whatever its name; with NAME, put the version of it in
production that was before. That is one step: only a promotion brings back what a rollback takes
away.`,
	}
	store := storeFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		var ref checkpoints.Ref
		var err error
		if len(args) == 0 {
			ref, err = store().Back()
		} else {
			ref.Name = args[0]
			ref.Version, err = store().Rollback(args[0])
		}
		if err != nil {
			return err
		}
		if ref.Name == "" {
			_, err = fmt.Fprintln(c.OutOrStdout(), "no predictor is in production, as before")
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s is in production\n", ref)
		return err
	}
	return c
}

func newRemove() *cobra.Command {
	var store func() *checkpoints.Predictors
	c := operate.RemoveCommand("Remove a version of a predictor, or all of them", checkpoints.ParsePredictorRef,
		func(ref checkpoints.Ref, force bool) ([]int, error) { return store().Remove(ref, force) })
	store = storeFlag(c)
	return c
}
