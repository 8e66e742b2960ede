package measure

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	scenario, url, trace, model, keyEnv, store, format string
	rate                                               float64
	duration                                           time.Duration
	lengths, zero                                      bool
	seed                                               uint64
}

// NewReplayCommand returns the command that sends a recorded trace to a router.
func NewReplayCommand() *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay --url URL --trace FILE",
		Short: "Send a recorded trace to a live router, and report what came back",
		Long: `Send a recorded trace to a live router at the trace's own times, whether answers keep
up or not, and print utility, deadlines met, latencies and the mix of sizes as the
client saw them. The trace gives arrival times; tasks and lengths are the scenario's,
unless --lengths takes the trace's own token counts.

Before anything is sent, the trace is read, and the server asked whether it has the
model and, if it is a router, the scenario's tasks and sizes. The last lines are a verdict
and the command that simulates the same.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			return replayTrace(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	cli.ScenarioFlag(c, &o.scenario)
	f.StringVar(&o.url, "url", "", "`URL` of the router (required)")
	f.StringVar(&o.trace, "trace", "", "`FILE` of the trace: CSV of Azure, BurstGPT, vidur or the arena, or JSONL (required)")
	f.Float64Var(&o.rate, "rate", 0, "rescale the times of the requests sent to a mean of `R` per second")
	f.DurationVar(&o.duration, "duration", 0, "to send for: with a rate, the first R×D requests (default: the whole trace)")
	f.StringVar(&o.model, "model", "", "to ask for (default: auto)")
	f.StringVar(&o.keyEnv, "api-key-env", "", "`VARIABLE` of the environment with the router's key (default: none)")
	f.BoolVar(&o.lengths, "lengths", false, "take the trace's own token counts")
	f.BoolVar(&o.zero, "zero", false, "keep the trace's requests with zero prompt or output tokens (default: leave them out)")
	f.Uint64Var(&o.seed, "seed", 0, "of tasks and lengths that the trace does not give")
	f.StringVar(&o.store, "store", cli.DefaultStore(), "`FILE` with the router's policies, for the command that simulates the same")
	f.StringVar(&o.format, "format", "table", "table or json")
	for _, name := range []string{"url", "trace"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return c
}

func (o *replayOptions) validate() error {
	return cmp.Or(
		tableOrJSON(o.format),
		// NaN is no rate either.
		cli.FaultIf(!(o.rate >= 0) || o.duration < 0, "--rate %v --duration %v: want numbers that are not negative", o.rate, o.duration),
	)
}

func replayTrace(ctx context.Context, o replayOptions, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	key, err := cli.KeyFrom(o.keyEnv)
	if err != nil {
		return err
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	requests, err := o.requests(s, stderr)
	if err != nil {
		return err
	}
	config := loadgen.ReplayConfig{URL: o.url, Model: o.model, Key: key, Table: s.Table(), Requests: requests}
	config.Progress = replayed(stderr, len(requests), requests[len(requests)-1].At)
	report, err := loadgen.Replay(ctx, config)
	if output.IsTerminal(stderr) {
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
	verdict := stdout
	if o.format == "json" { // programs read that
		verdict = stderr
	}
	_, err = fmt.Fprintf(verdict, "\n%s\n%s", report.Verdict(), o.next(report))
	return err
}

// spec returns the trace as a workload.
func (o *replayOptions) spec() workloads.Spec {
	return workloads.Spec{Form: "trace", File: o.trace, Rate: o.rate, Lengths: o.lengths, Zero: o.zero}
}

// number returns how many requests are sent at most; 0 is all of the trace. With a rate and a
// duration those that make that mean rate are; with a duration alone, what the trace has in
// that time.
func (o *replayOptions) number() int { return int(math.Ceil(o.rate * o.duration.Seconds())) }

// requests reads all that are sent, so that what is wrong with them shows before any is.
func (o *replayOptions) requests(s *scenario.Scenario, stderr io.Writer) (workloads.Given, error) {
	settings := s.Settings(o.number())
	settings.Notice = cli.NoticeOn(stderr)
	stream, err := o.spec().Open(settings, workloads.Seed(workloads.Serving, o.seed))
	if err != nil {
		return nil, err
	}
	if o.number() == 0 {
		stream = workloads.Take(stream, workloads.Limit{Duration: o.duration})
	}
	var list workloads.Given
	for a, ok := stream.Next(); ok; a, ok = stream.Next() {
		list = append(list, a)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--duration %v: no request of %s comes in that time", o.duration, o.trace)
	}
	return list, nil
}

// replayEvery is how often replay writes a line without a terminal.
const replayEvery = 10 * time.Second

// replayed says how far a replay of so many requests in so much time has come.
func replayed(stderr io.Writer, requests int, length time.Duration) func(loadgen.ReplayProgress) {
	var said time.Duration
	terminal := output.IsTerminal(stderr)
	return func(p loadgen.ReplayProgress) {
		of := " of " + length.Round(time.Second).String()
		if p.Elapsed > length { // what is left are answers
			of = ""
		}
		line := fmt.Sprintf("%s%s: %d of %d sent, %d answered", p.Elapsed.Round(time.Second), of, p.Sent, requests, p.Answered)
		if terminal {
			fmt.Fprintf(stderr, "\r\x1b[K%s", line)
		} else if p.Elapsed-said >= replayEvery {
			said = p.Elapsed
			fmt.Fprintln(stderr, line)
		}
	}
}

// next returns the command that simulates what was replayed, by the policy that routed. For a
// stored policy it names the store, which must have it.
func (o *replayOptions) next(r loadgen.ReplayReport) string {
	if r.Policy == "" || o.model != "" && o.model != "auto" {
		return ""
	}
	command := "simulate the same: gearshift eval --scenario " + o.scenario
	if !policy.IsRule(r.Policy) {
		ref, err := checkpoints.ParseRef(r.Policy)
		if err == nil {
			_, err = (&checkpoints.Store{Path: o.store}).Lookup(ref)
		}
		if err != nil {
			return fmt.Sprintf("to simulate the same, give the store that has %s as --store: %v\n", r.Policy, err)
		}
		command += " --store " + o.store
	}
	command += fmt.Sprintf(" --policy %s --workload %s", r.Policy, o.spec())
	if o.number() > 0 || o.duration > 0 {
		command += fmt.Sprintf(" --requests %d", r.Requests)
	}
	return command + "\n"
}

func printReport(report loadgen.ReplayReport, format string, stdout io.Writer) error {
	if format == "table" {
		return report.WriteTable(stdout)
	}
	return output.JSON(stdout, report)
}
