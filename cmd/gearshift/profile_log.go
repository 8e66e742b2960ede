package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"gearshift/cmd/gearshift/machine"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/env/fit"
)

// logOptions are the flags of whatever fits a profile to a log of requests.
type logOptions struct {
	requests, machine, model, date, variant string
	fit                                     fit.Options
}

// flags says of the log when it is needed.
func (o *logOptions) flags(c *cobra.Command, when string) {
	f := c.Flags()
	f.StringVar(&o.requests, "requests", "", "`FILE` of the request log, JSON lines ("+when+")")
	f.StringVar(&o.machine, "machine", "", "`words` on the machine, for the profile")
	f.StringVar(&o.model, "model", "", "`words` on the model and its engine, for the profile")
	f.StringVar(&o.variant, "variant", "", "`NAME` of the variant in the profile (default: measured)")
	f.StringVar(&o.date, "date", "", "`YYYY-MM-DD` of the profile (default: today)")
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
	return checkProfileFlags(o.date, []count{
		{"max-batch-tokens", int64(o.fit.MaxBatchTokens)}, {"max-sequences", int64(o.fit.MaxSequences)}, {"kv-tokens", int64(o.fit.KVTokens)},
		{"model-bytes", o.fit.WeightBytes}, {"kv-bytes-per-token", o.fit.KVBytes}, {"resamples", int64(o.fit.Resamples)},
	})
}

// read reads the log; clock is how many rows may tell how its clocks lie.
func (o *logOptions) read(clock int) (*fit.Log, error) {
	file, err := os.Open(o.requests)
	if err != nil {
		return nil, fmt.Errorf("cannot read the request log: %w", err)
	}
	defer file.Close()
	return fit.ReadLog(file, o.requests, clock)
}

// measured is a profile fitted to a log, as it is written: the entry of a scenario,
// the engine that was assumed or found, and how good it is.
type measured struct {
	Profiles  []scenario.LatencyModel `yaml:"profiles"`
	Date      string                  `yaml:"date"`
	Machine   string                  `yaml:"machine"`
	Served    string                  `yaml:"model"`
	Log       string                  `yaml:"log"`
	Requests  int                     `yaml:"requests"`
	Engine    engine.Config           `yaml:"engine"`
	KVTokens  int                     `yaml:"kv_tokens"`
	Intervals map[string]fit.Interval `yaml:"intervals_90,omitempty"`
	Held      []string                `yaml:"held,flow"`
	Errors    fit.Errors              `yaml:"errors"`
	Explained float64                 `yaml:"explained_variance"`
	Fits      bool                    `yaml:"fits"`
}

func (o *logOptions) measured(f *fit.Fitted) measured {
	or := func(words, other string) string {
		if words == "" {
			return other
		}
		return words
	}
	return measured{
		Profiles: []scenario.LatencyModel{{Variant: or(o.variant, "measured"), Profile: f.Profile}},
		Date:     or(o.date, time.Now().UTC().Format(time.DateOnly)), Machine: or(o.machine, machine.Unsaid), Served: or(o.model, machine.Unsaid),
		Log: f.Log, Requests: f.Requests, Engine: f.Engine, KVTokens: f.KVTokens,
		Intervals: f.Intervals, Held: f.Held, Errors: f.Errors, Explained: f.Explained, Fits: f.Fits,
	}
}

// text is the file, with its fractions as long as they mean something.
func (m *measured) text() ([]byte, error) {
	var doc yaml.Node
	if err := doc.Encode(m); err != nil {
		return nil, err
	}
	return profileText(&doc, m.Intervals)
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
