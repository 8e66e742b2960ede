// Package measure has the commands that measure what runs: profile, calibrate, validate and
// replay. A command parses its flags, asks the packages that measure, fit and compare, and
// writes what they return. Calibrate runs the other commands, and those that train and
// evaluate, one after the other as they would be typed.
package measure

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"gearshift/cmd/gearshift/cli"
	"gearshift/env/fit"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/output"
)

// NewProfileCommand returns the commands that measure engines and fit latency models.
func NewProfileCommand() *cobra.Command {
	return cli.Group("profile", "Measure engines, and fit latency models to what was measured", newProfileMeasureCommand(), newProfileGPUCommand(), newProfileFitCommand())
}

func newProfileFitCommand() *cobra.Command {
	var o logOptions
	var out string
	c := &cobra.Command{
		Use:   "fit --requests FILE",
		Short: "Fit a profile to a log of served requests",
		Long: `Fit the latency model to a log of served requests and print it as YAML: the parameters,
their 90 % intervals, and how far the model's predictions of the same requests lie
from what was measured. Its first entry is as a scenario has it under profiles. With
--out, write it to DIR/profile.yaml next to a report with plots of the residuals.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			return fitProfile(o, out, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.flags(c, "required")
	c.Flags().StringVar(&out, "out", "", "write the profile and plots of the residuals into `DIR`")
	return c
}

func fitProfile(o logOptions, out string, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, err := o.read(0, stderr)
	if err != nil {
		return err
	}
	fitted, err := fit.Fit(log, len(log.Requests), o.fit)
	if err != nil {
		return err
	}
	warn(fitted, stderr)
	m := profiling.OfLog(fitted, o.words)
	text, err := m.Text()
	if err != nil {
		return err
	}
	if out == "" {
		_, err := stdout.Write(text)
		return err
	}
	if err := profiling.WriteResiduals(log, fitted, out); err != nil {
		return err
	}
	path := filepath.Join(out, "profile.yaml")
	if err := output.Install(path, text, true); err != nil {
		return fmt.Errorf("cannot write the profile: %w", err)
	}
	_, err = fmt.Fprintln(stdout, path)
	return err
}

// count is a flag that counts something.
type count struct {
	flag  string
	value int64
}

// checkProfileFlags refuses a date that is none, and what is negative.
func checkProfileFlags(date string, counts []count) error {
	if date != "" {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			return fmt.Errorf("--date %q: want YYYY-MM-DD", date)
		}
	}
	for _, n := range counts {
		if n.value < 0 {
			return fmt.Errorf("--%s %d is negative", n.flag, n.value)
		}
	}
	return nil
}

// logOptions are the flags of whatever fits a profile to a log of requests.
type logOptions struct {
	requests string
	words    profiling.Words
	fit      fit.Options
}

// flags says of the log when it is needed.
func (o *logOptions) flags(c *cobra.Command, when string) {
	f := c.Flags()
	f.StringVar(&o.requests, "requests", "", "`FILE` of the request log, JSON lines or CSV ("+when+")")
	f.StringVar(&o.words.Machine, "machine", "", "`words` on the machine, for the profile")
	f.StringVar(&o.words.Model, "model", "", "`words` on the model and its engine, for the profile")
	f.StringVar(&o.words.Variant, "variant", "", "`NAME` of the variant in the profile (default: measured)")
	f.StringVar(&o.words.Date, "date", "", "`YYYY-MM-DD` of the profile (default: today)")
	f.IntVar(&o.fit.MaxBatchTokens, "max-batch-tokens", 0, "the engine's token budget of a step (default: by the log)")
	f.IntVar(&o.fit.MaxSequences, "max-sequences", 0, "the engine's bound of running sequences (default: by the log, or 256)")
	f.IntVar(&o.fit.KVTokens, "kv-tokens", 0, "tokens that its KV cache holds (default: by the log)")
	f.Int64Var(&o.fit.WeightBytes, "model-bytes", 0, "size of the weights, for the profile")
	f.Int64Var(&o.fit.KVBytes, "kv-bytes-per-token", 0, "size of a cached token, for the profile")
	f.IntVar(&o.fit.Resamples, "resamples", 20, "refits that the intervals come from; 0 for no intervals")
}

func (o *logOptions) validate() error {
	if o.requests == "" {
		return fmt.Errorf("--requests FILE is missing: the log to fit, JSON lines")
	}
	return checkProfileFlags(o.words.Date, []count{
		{"max-batch-tokens", int64(o.fit.MaxBatchTokens)}, {"max-sequences", int64(o.fit.MaxSequences)}, {"kv-tokens", int64(o.fit.KVTokens)},
		{"model-bytes", o.fit.WeightBytes}, {"kv-bytes-per-token", o.fit.KVBytes}, {"resamples", int64(o.fit.Resamples)},
	})
}

// read reads the log, and reports on stderr what it leaves out or doubts; clock is how many
// rows may be used to find the offset of its clocks.
func (o *logOptions) read(clock int, stderr io.Writer) (*fit.Log, error) {
	file, err := os.Open(o.requests)
	if err != nil {
		return nil, fmt.Errorf("cannot read the request log: %w", err)
	}
	defer file.Close()
	log, err := fit.ReadLog(file, o.requests, clock)
	if err != nil {
		return nil, err
	}
	if log.Failed > 0 {
		fmt.Fprintf(stderr, "note: %s: %d of %d requests failed, with no tokens or an error, and are left out\n", log.Name, log.Failed, log.Failed+len(log.Requests))
	}
	if log.Doubt != "" {
		fmt.Fprintf(stderr, "gearshift: warning: %s: %s\n", log.Name, log.Doubt)
	}
	return log, nil
}

// warn says that a profile is not to be trusted.
func warn(f *fit.Fitted, stderr io.Writer) {
	if !f.Fits {
		fmt.Fprintf(stderr, "gearshift: warning: the model does not fit %s: median error %.1f %% end to end, %.1f %% per token; at most %.0f %% is a fit\n",
			f.Log, 100*f.Errors.EndToEnd.Median, 100*f.Errors.TPOT.Median, 100*fit.Misfit)
	}
}

// keyed is v with the names of its YAML keys, for JSON.
func keyed(v any) (any, error) {
	text, err := yaml.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, yaml.Unmarshal(text, &out)
}
