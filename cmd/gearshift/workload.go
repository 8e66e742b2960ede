package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// workloadOptions are the flags of the workload commands.
type workloadOptions struct {
	scenario, out string
	seed          uint64
	requests      int
	format        string
}

func newWorkloadCommand() *cobra.Command {
	var o workloadOptions
	gen := &cobra.Command{
		Use: "gen W", Short: "Write a workload as a JSONL trace", Args: cli.One,
		Long: "Write a workload as a JSONL trace, a request a line.\n\nW: " + workloads.Forms,
		RunE: func(c *cobra.Command, args []string) error {
			return generate(c.Context(), o, args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	stat := &cobra.Command{
		Use: "stat W", Short: "Measure a workload: rate, burstiness, lengths", Args: cli.One,
		Long: "Measure a workload, and compare it with what its law predicts.\n\nW: " + workloads.Forms,
		RunE: func(c *cobra.Command, args []string) error {
			return statistics(c.Context(), o, args[0], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	for _, sub := range []*cobra.Command{gen, stat} {
		cli.ScenarioFlag(sub, &o.scenario)
		sub.Flags().Uint64Var(&o.seed, "seed", 1, "of the workload")
		sub.Flags().IntVar(&o.requests, "requests", 0, "to take at most (default: the scenario's; of the stable workload and of schedules, all)")
	}
	gen.Flags().StringVar(&o.out, "out", "", "`file` to write (default: standard output)")
	stat.Flags().StringVar(&o.format, "format", "table", "table or json")
	return cli.Group("workload", "Generate and measure workloads", gen, stat)
}

// open begins the workload, which ends with the context, and names its law.
func (o *workloadOptions) open(ctx context.Context, text string, stderr io.Writer) (*scenario.Scenario, workloads.Spec, workloads.Stream, error) {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return nil, workloads.Spec{}, nil, err
	}
	spec, err := workloads.ParseStream(text)
	if err != nil {
		return nil, spec, nil, err
	}
	requests := o.requests
	if requests < 0 {
		return nil, spec, nil, fmt.Errorf("--requests %d: want a positive number, or 0 for the scenario's", requests)
	}
	if requests == 0 {
		requests = s.Evaluation.Requests
	}
	settings := s.Settings(requests)
	settings.Notice = cli.NoticeOn(stderr)
	stream, err := spec.Open(settings, o.seed)
	if err == nil && o.requests > 0 { // some end by time alone
		stream = workloads.Take(stream, workloads.Limit{Requests: o.requests})
	}
	return s, spec, interruptible{ctx, stream}, err
}

// interruptible is a stream that ends with the context.
type interruptible struct {
	context.Context
	workloads.Stream
}

// Next implements [workloads.Stream].
func (s interruptible) Next() (workloads.Arrival, bool) {
	if s.Err() != nil {
		return workloads.Arrival{}, false
	}
	return s.Stream.Next()
}

func generate(ctx context.Context, o workloadOptions, text string, stdout, stderr io.Writer) error {
	s, _, stream, err := o.open(ctx, text, stderr)
	if err != nil {
		return err
	}
	var n int
	trace := func(w io.Writer) (err error) {
		if n, err = workloads.WriteTrace(w, stream, s.Table().Tasks); err == nil {
			err = ctx.Err()
		}
		return err
	}
	if o.out == "" {
		return trace(stdout)
	}
	if err := output.Into(o.out, trace); err != nil {
		return fmt.Errorf("cannot write workload: %w", err)
	}
	fmt.Fprintf(stdout, "wrote %d requests to %s\n", n, o.out)
	return nil
}

func statistics(ctx context.Context, o workloadOptions, text string, stdout, stderr io.Writer) error {
	s, spec, stream, err := o.open(ctx, text, stderr)
	if err != nil {
		return err
	}
	m := workloads.Measure(stream)
	if err := ctx.Err(); err != nil {
		return err
	}
	switch o.format {
	case "json":
		return output.JSON(stdout, m)
	case "table":
	default:
		return fmt.Errorf("--format %q: want table or json", o.format)
	}
	process, err := spec.Process(s.Settings(o.requests)) // of a trace, no more is read than is asked for
	if err != nil {
		return err
	}
	idc := func(measured float64, window time.Duration) string {
		text := fmt.Sprintf("%.4g", measured)
		if m.Duration < 2*window.Seconds() {
			text = "unknown, of less than two windows"
		}
		if v, ok := process.IDC(window); ok {
			text += fmt.Sprintf("  (law: %.4g)", v)
		}
		return text
	}
	fmt.Fprintf(stdout, "workload             %s, seed %d\n", spec, o.seed)
	fmt.Fprintf(stdout, "requests             %d in %.1f s\n", m.Requests, m.Duration)
	fmt.Fprintf(stdout, "mean rate            %.4g/s  (law: %.4g)\n", m.MeanRate, process.MeanRate())
	fmt.Fprintf(stdout, "gap CV               %.3f\n", m.GapCV)
	fmt.Fprintf(stdout, "dispersion in 1 s    %s\n", idc(m.IDC1, time.Second))
	fmt.Fprintf(stdout, "dispersion in 10 s   %s\n", idc(m.IDC10, 10*time.Second))
	fmt.Fprintf(stdout, "peak in 1 s          %d\n", m.Peak)
	drawn := ""
	if spec.Form == "trace" && !spec.Lengths {
		drawn = ", drawn from the scenario; +lengths takes the trace's"
	}
	fmt.Fprintf(stdout, "mean prompt, output  %.1f, %.1f tokens%s\n", m.MeanPrompt, m.MeanOutput, drawn)
	for i, n := range m.Tasks {
		fmt.Fprintf(stdout, "task %-15s %d\n", s.Tasks[i].Name, n)
	}
	return nil
}
