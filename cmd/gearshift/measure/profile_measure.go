package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/durable"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
)

// measureOptions are the flags of profile measure.
type measureOptions struct {
	url, model, scenario, keyEnv string
	neighbours, modalities       []string
	out, report, log             string
	batches, prompts             []int
	output                       int
	time                         time.Duration
	profile                      profiling.Options // its seed is the measurement's too
}

func newProfileMeasureCommand() *cobra.Command {
	var o measureOptions
	c := &cobra.Command{
		Use:   "measure --url URL",
		Short: "Measure a running engine, and write its profile",
		Long: `Send an OpenAI-compatible engine so many requests at once, of several prompt lengths,
alone and while its neighbours are loaded, and fit the latency model to what its steps
took. Nothing else should ask the engine meanwhile. The profile is YAML as a scenario
has it under profiles, with intervals, the machine, and how well the model fits:

  gearshift profile measure --url http://127.0.0.1:8101/v1 --model small \
    --neighbour http://127.0.0.1:8101/v1=large --out small.yaml

Without a neighbour, contention stays unknown, and is 0 in the profile.

With --modalities the engine is a classifier, and is measured with each subset of them, in
batches of 1 to 32. The entries are those of the variants of a model with modalities:

  gearshift profile measure --url http://127.0.0.1:8101 --model digits --modalities image,audio`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("modalities") {
				if err := o.onlyClassifiers(c.Flags().Changed, measureFlags(c)); err != nil {
					return err
				}
				return measureClassifier(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
			}
			return measureProfile(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.flags(c)
	return c
}

// measureFlags are the names of the command's own flags.
func measureFlags(c *cobra.Command) (names []string) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func (o *measureOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.url, "url", "", "`URL` of the engine, such as http://127.0.0.1:8000/v1 (required)")
	f.StringVar(&o.model, "model", "", "`NAME` of the model to measure (default: the only one)")
	f.StringArrayVar(&o.neighbours, "neighbour", nil, "`URL[=MODEL]` of an engine on the same machine, to be loaded meanwhile; may be repeated")
	f.StringSliceVar(&o.modalities, "modalities", nil, "`NAMES` of a classifier's inputs, of text, image and audio, to measure with each subset of them")
	f.StringVar(&o.out, "out", "", "`FILE` to write the profile to (default: standard output)")
	f.StringVar(&o.report, "report", "", "write a report with plots of the residuals into `DIR`")
	f.StringVar(&o.log, "log", "", "`FILE` to write the requests to, JSON lines")
	f.DurationVar(&o.time, "time", time.Minute, "to measure for; longer, up to 5m or twice the time, until each load was tried once")
	f.IntSliceVar(&o.batches, "batches", []int{1, 2, 4, 8, 16}, "numbers of requests at once, ascending")
	f.IntSliceVar(&o.prompts, "prompts", []int{16, 64, 128, 256, 512}, "prompt lengths in tokens, ascending")
	f.IntVar(&o.output, "output", 32, "tokens of an answer whose steps are timed")
	f.StringVar(&o.profile.Variant, "variant", "", "`NAME` of the variant in the profile (default: the model's)")
	f.StringVar(&o.scenario, "scenario", "", "`name or file` of the scenario whose profile of the variant says its memory")
	f.Int64Var(&o.profile.WeightBytes, "model-bytes", 0, "size of the weights, for the profile")
	f.Int64Var(&o.profile.ActivationBytes, "activation-bytes", 0, "size of what else the engine holds, for the profile")
	f.Int64Var(&o.profile.KVBytes, "kv-bytes-per-token", 0, "size of a cached token, for the profile")
	f.StringVar(&o.keyEnv, "api-key-env", "", "`VARIABLE` of the environment with the engines' key (default: none)")
	f.StringVar(&o.profile.Machine, "machine", "", "`words` on the machine (default: this one, where the engine is local)")
	f.StringVar(&o.profile.Date, "date", "", "`YYYY-MM-DD` of the profile (default: today)")
	f.IntVar(&o.profile.Resamples, "resamples", 200, "refits that the intervals come from; 0 for no intervals")
	f.Uint64Var(&o.profile.Seed, "seed", 0, "of the prompts' words and of the order of loads")
}

// config returns what to measure.
func (o *measureOptions) config() (loadgen.Config, error) {
	c := loadgen.Config{Batches: o.batches, Prompts: o.prompts, Output: o.output, Time: o.time, Seed: o.profile.Seed}
	if o.url == "" {
		return c, errors.New("--url URL is missing: the engine to measure, such as http://127.0.0.1:8000/v1")
	}
	key, err := cli.KeyFrom(o.keyEnv)
	if err != nil {
		return c, err
	}
	if c.Target, err = loadgen.Parse(o.url); err != nil {
		return c, fmt.Errorf("--url %w", err)
	}
	if o.model != "" {
		c.Target.Model = o.model
	}
	c.Target.Key = key
	for _, text := range o.neighbours {
		n, err := loadgen.Parse(text)
		if err != nil {
			return c, fmt.Errorf("--neighbour %w", err)
		}
		n.Key = key
		if n.URL == c.Target.URL && n.Model == c.Target.Model {
			return c, fmt.Errorf("--neighbour %s is the engine to be measured itself; add =MODEL for another model of it", text)
		}
		c.Neighbours = append(c.Neighbours, n)
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("--%w", err)
	}
	return c, o.validate()
}

func (o *measureOptions) validate() error {
	return checkProfileFlags(o.profile.Date, []count{
		{"model-bytes", o.profile.WeightBytes}, {"activation-bytes", o.profile.ActivationBytes}, {"kv-bytes-per-token", o.profile.KVBytes}, {"resamples", int64(o.profile.Resamples)},
	})
}

// memory fills in the bytes that the flags leave open from the variant's profile in
// the scenario.
func (o *measureOptions) memory(variant string) error {
	if o.scenario == "" {
		return nil
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	for _, m := range s.Models {
		if m.Variant != variant {
			continue
		}
		for _, fill := range []struct {
			to   *int64
			from int64
		}{{&o.profile.WeightBytes, m.WeightBytes}, {&o.profile.ActivationBytes, m.ActivationBytes}, {&o.profile.KVBytes, m.KVBytes}} {
			if *fill.to == 0 {
				*fill.to = fill.from
			}
		}
		return nil
	}
	return fmt.Errorf("--scenario %s has no profile of variant %q; say which with --variant: %s", o.scenario, variant,
		scenario.Names(s.Variants, func(v scenario.Variant) string { return v.Name }))
}

func measureProfile(ctx context.Context, o measureOptions, stdout, stderr io.Writer) error {
	c, err := o.config()
	if err != nil {
		return err
	}
	if o.scenario != "" {
		if _, err := scenario.Load(o.scenario); err != nil {
			return err // now, and not after a minute
		}
	}
	if err := o.writable(); err != nil {
		return err
	}
	c.Processors = profiling.Processors(append([]loadgen.Target{c.Target}, c.Neighbours...)...)
	watched := output.IsTerminal(stderr)
	if watched {
		c.Progress = func(p loadgen.Progress) { fmt.Fprint(stderr, "\r\x1b[K", progressLine(p)) }
	}
	m, err := loadgen.Run(ctx, c)
	if watched {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if o.profile.Variant == "" {
		o.profile.Variant = m.Target.Model
	}
	if err := o.memory(o.profile.Variant); err != nil {
		return err
	}
	p, err := profiling.Of(m, o.profile)
	if err != nil {
		return err
	}
	p.Warn(stderr)
	return o.write(p, m, stdout)
}

// writable reports whether the files can be written, before what they are to hold has
// been measured.
func (o *measureOptions) writable() error {
	for _, f := range []struct{ flag, path string }{{"out", o.out}, {"log", o.log}} {
		if f.path == "" {
			continue
		}
		if info, err := os.Stat(f.path); err == nil && info.IsDir() {
			return fmt.Errorf("--%s %s is a folder; want a file", f.flag, f.path)
		}
		trial, err := durable.Beside(f.path)
		if err == nil {
			err = errors.Join(trial.Close(), os.Remove(trial.Name()))
		}
		if err != nil {
			return fmt.Errorf("--%s %s cannot be written: %w", f.flag, f.path, err)
		}
	}
	return nil
}

// progressLine returns one line, in which a bar of twenty marks shows the time.
func progressLine(p loadgen.Progress) string {
	const marks = 20
	full := int(min(1, p.Elapsed.Seconds()/p.Of.Seconds()) * marks)
	return fmt.Sprintf("[%s%s] %v of %v, round %d, %d of %d: %s", strings.Repeat("#", full), strings.Repeat(".", marks-full),
		p.Elapsed.Round(time.Second), p.Of, p.Round, p.Done+1, p.Cells, p.Now)
}

// write writes what the flags ask for, each file whole or not at all.
func (o *measureOptions) write(p *profiling.Profile, m *loadgen.Measurement, stdout io.Writer) error {
	text, err := p.Text()
	if err != nil {
		return err
	}
	if o.log != "" {
		log, err := profiling.RequestLog(m.Requests)
		if err == nil {
			err = output.Install(o.log, log, true)
		}
		if err != nil {
			return fmt.Errorf("cannot write the log: %w", err)
		}
	}
	if o.out == "" {
		_, err = stdout.Write(text)
	} else if err = output.Install(o.out, text, true); err != nil {
		err = fmt.Errorf("cannot write the profile: %w", err)
	} else {
		_, err = fmt.Fprintln(stdout, o.out)
	}
	if o.report != "" { // last: without it there is the profile still
		err = errors.Join(err, p.WriteReport(o.report))
	}
	return err
}
