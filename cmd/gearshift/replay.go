package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/serving/replay"
	"gearshift/workloads"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	scenario, url, trace, model, keyEnv, format string
	rate                                        float64
	duration                                    time.Duration
	lengths                                     bool
	seed                                        uint64
}

func newReplayCommand() *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay --url URL --trace FILE",
		Short: "Send a recorded trace to a live router, and report what came back",
		Long: `Send a recorded trace to a live router at the trace's own pace, whether answers keep
up or not, and print utility, deadlines met, latencies and the mix of sizes as the
client saw them. The trace gives arrival times; tasks and lengths are the scenario's,
unless --lengths takes the trace's own token counts.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return replayTrace(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	scenarioFlag(c, &o.scenario)
	f.StringVar(&o.url, "url", "", "`URL` of the router (required)")
	f.StringVar(&o.trace, "trace", "", "`FILE` of the trace: Azure or arena CSV, or JSONL (required)")
	f.Float64Var(&o.rate, "rate", 0, "rescale the times of the requests sent to a mean of `R` per second")
	f.DurationVar(&o.duration, "duration", 0, "to send for: with a rate, the first R×D requests (default: the whole trace)")
	f.StringVar(&o.model, "model", "", "to ask for (default: auto)")
	f.StringVar(&o.keyEnv, "api-key-env", "", "`VARIABLE` of the environment with the router's key (default: none)")
	f.BoolVar(&o.lengths, "lengths", false, "take the trace's own token counts")
	f.Uint64Var(&o.seed, "seed", 0, "of tasks and lengths that the trace does not give")
	f.StringVar(&o.format, "format", "table", "table or json")
	for _, name := range []string{"url", "trace"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return c
}

func (o *replayOptions) validate() error {
	if o.format != "table" && o.format != "json" {
		return fmt.Errorf("--format %q: want table or json", o.format)
	}
	if !(o.rate >= 0) || o.duration < 0 { // NaN is no rate either
		return fmt.Errorf("--rate %v --duration %v: want numbers that are not negative", o.rate, o.duration)
	}
	return nil
}

func replayTrace(ctx context.Context, o replayOptions, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	key, err := keyFrom(o.keyEnv)
	if err != nil {
		return err
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	spec := workloads.Spec{Form: "trace", File: o.trace, Rate: o.rate, Lengths: o.lengths}
	// With a rate and a duration, as many requests as that makes are sent, at
	// that mean rate; with a duration alone, what the trace has in that time.
	requests := int(math.Ceil(o.rate * o.duration.Seconds()))
	stream, err := spec.Open(s.Settings(requests), workloads.Seed(workloads.Serving, o.seed))
	if err != nil {
		return err
	}
	if requests == 0 {
		stream = workloads.Take(stream, workloads.Limit{Duration: o.duration})
	}
	config := replay.Config{URL: o.url, Model: o.model, Key: key, Table: s.Table(), Requests: stream}
	if output.IsTerminal(stderr) {
		config.Progress = func(p replay.Progress) {
			fmt.Fprintf(stderr, "\r\x1b[K%s: %d sent, %d answered", p.Elapsed.Round(time.Second), p.Sent, p.Answered)
		}
	}
	report, err := replay.Run(ctx, config)
	if config.Progress != nil {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if err := printReport(report, o.format, stdout); err != nil {
		return err
	}
	// What came back before an interruption is worth a look; success it is not.
	if err := ctx.Err(); err != nil {
		return err
	}
	if report.Completed == 0 {
		return fmt.Errorf("none of %d requests was answered: %s", report.Requests, report.Faults())
	}
	return nil
}

func printReport(report replay.Report, format string, stdout io.Writer) error {
	if format == "table" {
		return report.WriteTable(stdout)
	}
	return output.JSON(stdout, report)
}
