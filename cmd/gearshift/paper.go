//go:build !serveonly

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/reports"
	"gearshift/internal/reports/arise"
	"gearshift/internal/reports/besteffort"
	"gearshift/internal/reports/faillite"
	"gearshift/internal/reports/mosel"
	"gearshift/internal/reports/placement"
	"gearshift/internal/reports/prompts"
	"gearshift/internal/reports/tail"
	"gearshift/internal/training"
)

// paperReports are the reports that there are. The first one is also what the command
// makes without a name.
func paperReports() []reports.Report {
	return []reports.Report{besteffort.Report(), mosel.Report(), faillite.HostLoss(), faillite.Report(), tail.Report(), placement.Report(), arise.Report(), prompts.Report()}
}

func newPaperCommand() *cobra.Command {
	all := paperReports()
	c := reportCommand(all[0])
	c.Use, c.Example = "paper", ""
	c.Short = "Repeat the paper's whole evaluation, and more, as one report"
	c.Long = "Without a name it is gearshift paper " + all[0].Name + ":\n\n" + c.Long
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return cli.NoSubcommand(c, args)
	}
	for _, r := range all {
		c.AddCommand(reportCommand(r))
	}
	return c
}

// reportCommand is the subcommand that makes the report.
func reportCommand(r reports.Report) *cobra.Command {
	c := &cobra.Command{Use: r.Name, Short: r.Short, Long: r.Long, Args: cli.None, Example: "  gearshift paper " + r.Name + " " + r.Example}
	write := r.Declare(&reports.Flags{
		FlagSet:  c.Flags(),
		Scenario: func(to *string) { cli.ScenarioFlag(c, to) },
		Store:    func(to *string) { cli.StoreFlag(c, to) },
		Refuse:   func(so string, names ...string) error { return cli.RefuseFlags(c.Flags(), so, names...) },
	})
	c.RunE = func(c *cobra.Command, _ []string) error {
		return write(c.Context(), reportProgram(c.ErrOrStderr()), c.OutOrStdout(), c.ErrOrStderr())
	}
	return c
}

// reportProgram is what reports take of this program.
func reportProgram(stderr io.Writer) reports.Program {
	return reports.Program{
		Version: version + revision(),
		Train: func(ctx context.Context, t reports.Training) (string, error) {
			return training.Ensure(ctx, training.Options{
				Scenario: t.Scenario, Store: t.Store, Preset: t.Preset, Name: t.Name, From: t.From, Seed: t.Seed, Uncompared: t.Uncompared,
				Trace: t.Trace, HeldOut: 0.5,
			}, t.On, stderr)
		},
		FineTune: func(ctx context.Context, t reports.Tuning) (string, map[string]float64, error) {
			return training.FineTuneIn(ctx, training.Options{Scenario: t.Scenario, Store: t.Store, From: t.From, Name: t.Name, Seed: 1}, t.On, t.Fleet, t.Requests, stderr)
		},
		Counting: func(what string) func(done, total int) { return output.Counting(stderr, what) },
	}
}
