// Command gearshift trains, evaluates and serves what an inference router decides. One scenario file
// drives every subcommand.
//
// This package declares the commands that start: init, scenario, train, serve and engine. The
// other commands are in packages of their own:
//
//   - evalcmd: eval, league and bound
//   - operate: policy, store, key, lease and replica
//   - measure: profile, calibrate, validate and replay
//   - qualitycmd: quality
//   - modality, failover
//
// Package cli has what all of them share. What commands do is in the libraries under internal: scenario, app, training,
// calibrate and reports.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/cmd/gearshift/evalcmd"
	"gearshift/cmd/gearshift/measure"
	"gearshift/cmd/gearshift/operate"
	"gearshift/cmd/gearshift/qualitycmd"
	"gearshift/internal/output"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings as arguments. It returns the exit code: 0,
// 1 for an error, 130 for an interruption.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	out := &output.Checked{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil && out.Fault != nil {
		err = fmt.Errorf("cannot print: %w", out.Fault)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "gearshift: interrupted")
		return 130
	}
	fmt.Fprintln(stderr, "gearshift:", err)
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gearshift",
		Short: "Get the most quality out of too few machines: choose sizes, inputs, backups and places",
		Long: `Gearshift is an inference router for people who answer requests with too few machines. Behind an
OpenAI-compatible endpoint it decides which size of a model answers a request, which inputs a job
uses, where a smaller variant takes over when a host dies, and which replica answers and where
replicas live. It trains policies in a simulator of your fleet, and compares them with strong rules.
One scenario file drives every command; gearshift init writes one from engines that run.`,
		Example: `  gearshift init --engine gpu0=http://10.0.0.1:8000 --engine gpu0=http://10.0.0.1:8001
` + trainingExample + `  gearshift serve --scenario walk/scenario.yaml --store walk/policies.db
  gearshift eval --scenario mine.yaml --policy slackfit --workload u1`,
		Version: version + revision(), PersistentPreRunE: prepare,
		Args: cobra.ArbitraryArgs, RunE: cli.NoSubcommand, DisableFlagsInUseLine: true,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(cli.FlagFault)
	root.AddCommand(trainCommands()...)
	root.AddCommand(
		// start
		newInitCommand(), newScenarioCommand(), evalcmd.NewEvalCommand(), newServeCommand(),
		// operate
		operate.NewPolicyCommand(), qualitycmd.New(), operate.NewStoreCommand(), operate.NewKeyCommand(),
		operate.NewLeaseCommand(), operate.NewReplicaCommand(),
		// measure
		measure.NewProfileCommand(), measure.NewValidateCommand(), measure.NewReplayCommand(), measure.NewStreamCommand(), newEngineCommand(), newModelsCommand(),
		// research
		evalcmd.NewBoundCommand(), evalcmd.NewLeagueCommand(leagueTrainer), newWorkloadCommand(), modalityCommands(), operate.NewFailoverCommand(), operate.NewOffloadCommand(),
		newVersionCommand(),
	)
	cli.Arrange(root, sections, listed)
	return root
}

// prepare runs before every command.
func prepare(c *cobra.Command, _ []string) error {
	if err := cli.MissingFlags(c); err != nil {
		return err
	}
	if err := cli.CheckStore(c); err != nil {
		return err
	}
	cli.MakeDataFolder(c)
	return nil
}
