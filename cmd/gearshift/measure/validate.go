package measure

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/cli"
	"gearshift/env/fit"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/calibrate/validation"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/policy"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	logOptions
	running       validation.Options
	store, engine string // of the router's policy
	out           string // folder for the profiles that turns measure
	first         int
	deadline      float64
	format        string
}

// NewValidateCommand returns the command that compares the simulator with real requests.
func NewValidateCommand() *cobra.Command {
	var o validateOptions
	var running, log cobra.Command // each with the flags that mean nothing for the other
	c := &cobra.Command{
		Use:   "validate (--scenario S [--upstreams URL] [--url ROUTER] | --requests FILE --fit-first N)",
		Short: "Say how well the simulator predicts real requests",
		Long: `Send real requests to what is running, simulate the same requests with the scenario's
profiles, and print measured next to predicted: each variant alone, on the host where it
has the most neighbours, all of such a host co-resident, and the policy through the
router, each at several loads.
Servers are the scenario's serving.upstreams, or those of the flags:

  gearshift validate --scenario mine.yaml --url http://127.0.0.1:8080

Load 1 is the rate at which a replica alone, by its profile, takes twice the time per
token of a single request; co-resident variants each get an equal part of theirs, and
the router that of the largest variant.

A machine that is shared is not as quick when a load is sent as when its profile was
measured. With --turns both are done by turns, and what is judged is the latency model,
with the profiles that all of the measuring gives:

  gearshift validate --scenario mine.yaml --turns 10 --out profiles

With --requests, fit the latency model to the first requests of a log, by arrival,
predict the rest with the simulated engine, and print how far the predictions lie from
what was measured. Of the rest the simulation is told arrivals and token counts alone.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.requests == "" {
				return o.against(c, log.Flags())
			}
			if err := noneOf(running.Flags(), "requests"); err != nil {
				return err
			}
			return validate(o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.flags(&log, "required without --scenario")
	log.Flags().IntVar(&o.first, "fit-first", 0, "fit to the first `N` requests (with --requests)")
	log.Flags().Float64Var(&o.deadline, "deadline", 0, "also compare the share of requests whose latency per token is within so many `ms`")
	o.runningFlags(&running)
	c.Flags().AddFlagSet(log.Flags())
	c.Flags().AddFlagSet(running.Flags())
	c.Flags().StringVar(&o.format, "format", "table", "table or json")
	return c
}

// runningFlags returns those of a validation of what is running.
func (o *validateOptions) runningFlags(c *cobra.Command) {
	f, l := c.Flags(), &o.running
	f.StringVar(&l.Scenario, "scenario", "", "built-in `name or file` of the scenario whose fleet is running")
	f.StringVar(&l.Upstreams, "upstreams", "", "`URL` of the server of all variants of the first host (default: serving.upstreams)")
	f.StringVar(&l.URL, "url", "", "`URL` of a router to validate as a whole")
	f.StringVar(&l.Policy, "policy", "", "`REF` of the router's policy (default: what it says it uses)")
	cli.StoreFlag(c, &o.store)
	cli.EngineFlag(c, &o.engine)
	f.Float64SliceVar(&l.Loads, "loads", []float64{0.3, 0.6, 0.9}, "to try")
	f.StringSliceVar(&l.What, "what", validation.Kinds, "of it: "+strings.Join(validation.Kinds, ", "))
	f.StringSliceVar(&l.Only, "only", nil, "`VARIANTS` to load, alone or co-resident (default: all)")
	f.BoolVar(&l.Stretch, "stretch", false, "extend a load with too few requests until it has enough, to at most ten times --time")
	f.IntVar(&l.Tries, "tries", 1, "`N` at most for a run during which the host of this virtual machine gave much of its processors to others")
	f.IntVar(&l.Volley, "volley", 4, "`N` requests sent at once before and after each load, to measure how slow the machine is just then; 0 for none")
	f.IntVar(&l.Turns, "turns", 0, "`N` turns of measuring the profiles again and sending each load, and judge by those profiles, not the scenario's")
	f.IntSliceVar(&l.Batches, "batches", []int{1, 2, 4, 8}, "with --turns: numbers of requests at once to measure, ascending")
	f.IntSliceVar(&l.Prompts, "prompts", []int{16, 64}, "with --turns: prompt lengths in tokens, ascending")
	f.StringVar(&o.out, "out", "", "with --turns: `DIR` for the profiles measured")
	f.DurationVar(&l.Time, "time", 20*time.Second, "to send requests for, at each load")
	f.Uint64Var(&l.Seed, "seed", 0, "of the requests")
}

// noneOf refuses flags that mean nothing with another one.
func noneOf(flags *pflag.FlagSet, other string) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if err == nil && f.Changed {
			err = fmt.Errorf("--%s has no meaning with --%s", f.Name, other)
		}
	})
	return err
}

// against validates what is running.
func (o *validateOptions) against(c *cobra.Command, log *pflag.FlagSet) error {
	if log.Changed("fit-first") || o.running.Scenario == "" {
		return fmt.Errorf("--requests FILE is missing: the log to fit, JSON lines; or --scenario S, to validate what is running")
	}
	if err := cmp.Or(tableOrJSON(o.format), noneOf(log, "scenario")); err != nil {
		return err
	}
	for _, name := range []string{"out", "batches", "prompts"} {
		if o.running.Turns == 0 && c.Flags().Changed(name) {
			return fmt.Errorf("--%s has no meaning without --turns: nothing is measured again", name)
		}
	}
	if o.out != "" { // now, and not after an hour
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return o.validateRunning(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
}

func (o *validateOptions) validateRunning(ctx context.Context, stdout, stderr io.Writer) error {
	program := validation.Program{Policy: o.routersPolicy}
	if output.IsTerminal(stderr) {
		program.Progress = func(text string) { fmt.Fprint(stderr, "\r\x1b[K", text) }
	}
	report, err := validation.Validate(ctx, o.running, program)
	if err != nil {
		return err
	}
	if err := o.keep(report.Profiles); err != nil {
		return err
	}
	if o.format == "table" {
		return report.Table(stdout)
	}
	return output.JSON(stdout, report)
}

// keep writes the profiles that were measured where the flag says.
func (o *validateOptions) keep(profiles []*profiling.Profile) error {
	if o.out == "" {
		return nil
	}
	for _, p := range profiles {
		name := profiling.FileOf(p.Profiles[0].Variant)
		text, err := p.Text()
		if err == nil {
			err = output.Install(filepath.Join(o.out, name), text, true)
		}
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", name, err)
		}
	}
	return nil
}

// routersPolicy returns the policy of the reference, from the store of the flags.
func (o *validateOptions) routersPolicy(s *scenario.Scenario, t *fleet.Table, ref string, notes *[]string) (policy.Network, error) {
	source, err := onnxruntime.Source(o.store, o.engine)
	if err != nil {
		return nil, err
	}
	maker, err := s.Maker(t)
	if err != nil {
		return nil, err
	}
	return source.Network(maker, ref, s, notes)
}

// logValidation is what validate prints of a log.
type logValidation struct {
	Log        string `yaml:"log"`
	FittedOn   int    `yaml:"fitted_on"`
	fit.Errors `yaml:",inline"`
	Deadline   *fit.Shares      `yaml:"deadline,omitempty"`
	Profile    profiling.Logged `yaml:"profile"`
}

func (o *validateOptions) validate() error {
	return cmp.Or(
		o.logOptions.validate(),
		tableOrJSON(o.format),
		cli.FaultIf(!(o.deadline >= 0), "--deadline %v: want milliseconds per token", o.deadline),
		cli.FaultIf(o.first == 0, "--fit-first N is missing: how many requests to fit, at least %d; the others are predicted", fit.Fewest),
		cli.FaultIf(o.first < fit.Fewest, "--fit-first %d: too few requests to fit; at least %d are needed", o.first, fit.Fewest),
	)
}

func tableOrJSON(format string) error {
	return cli.FaultIf(format != "table" && format != "json", "--format %q: want table or json", format)
}

func validate(o validateOptions, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, err := o.read(o.first, stderr)
	if err != nil {
		return err
	}
	if o.first >= len(log.Requests) {
		return fmt.Errorf("%s: --fit-first %d of %d requests leaves none to predict", log.Name, o.first, len(log.Requests))
	}
	fitted, err := fit.Fit(log, o.first, o.fit)
	if err != nil {
		return err
	}
	times, err := fitted.Predict(log.Requests)
	if err != nil {
		return err
	}
	warn(fitted, stderr)
	rest, predicted := log.Requests[o.first:], times[o.first:]
	v := logValidation{Log: log.Name, FittedOn: o.first, Errors: fit.Compare(rest, predicted), Profile: profiling.OfLog(fitted, o.words)}
	if o.deadline > 0 {
		shares := fit.Within(rest, predicted, o.deadline)
		v.Deadline = &shares
	}
	if o.format == "table" {
		return v.table(stdout)
	}
	keys, err := keyed(v)
	if err != nil {
		return err
	}
	return output.JSON(stdout, keys)
}

func (v *logValidation) table(w io.Writer) error {
	fmt.Fprintf(w, "%s: fitted to the first %d requests, the other %d predicted\n\n", v.Log, v.FittedOn, v.Requests)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "relative error\tmedian\tp90\tmedian, fitted\tp90, fitted\t")
	f := v.Profile.Errors
	for _, line := range []struct {
		name     string
		rest, on fit.Error
	}{{"end to end", v.EndToEnd, f.EndToEnd}, {"TTFT", v.TTFT, f.TTFT}, {"TPOT", v.TPOT, f.TPOT}} {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f %%\t\n", line.name,
			100*line.rest.Median, 100*line.rest.P90, 100*line.on.Median, 100*line.on.P90)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if d := v.Deadline; d != nil {
		fmt.Fprintf(w, "\nwithin %g ms per token: %.3f measured, %.3f predicted\n", d.Deadline, d.Measured, d.Predicted)
	}
	m, p := &v.Profile, &v.Profile.Profiles[0]
	_, err := fmt.Fprintf(w, "\nweights %.2f ms, token %.4f ms, context token %.6f ms, sequence %.4f ms; KV cache %d tokens, steps of %d tokens and %d sequences\n",
		p.Weights, p.Token, p.Context, p.Sequence, m.KVTokens, m.Engine.MaxBatchTokens, m.Engine.MaxSequences)
	return err
}
