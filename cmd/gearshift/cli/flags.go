package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/env/evaluation"
	"gearshift/internal/onnxruntime"
	"gearshift/serving/config/setting"
)

// DefaultScenario is the scenario of a command without --scenario.
const DefaultScenario = "titan-rtx-opt"

// ScenarioFlag adds --scenario.
func ScenarioFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "scenario", DefaultScenario, "built-in `name or file` of the scenario")
}

// StoreFlag adds --store.
func StoreFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "store", DefaultStore(), StoreUsage)
}

// Format is the value of --format: JSON, or a form for people.
type Format struct{ value, plain string }

// Flag adds --format with the name of the form for people, which is the default.
func (f *Format) Flag(c *cobra.Command, plain string) {
	f.plain = plain
	c.Flags().StringVar(&f.value, "format", plain, plain+" or json")
}

// JSON reports whether it is JSON.
func (f *Format) JSON() (bool, error) {
	if f.value != f.plain && f.value != "json" {
		return false, fmt.Errorf("--format %q: want %s or json", f.value, f.plain)
	}
	return f.value == "json", nil
}

// EngineFlag adds --engine.
func EngineFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "engine", onnxruntime.Native, "what runs the networks of stored policies: native, or onnx for ONNX Runtime")
}

// FromLogFlag adds --from-log to a command that reads logged experience. With it, the command
// takes arguments as further files: a shell expands a pattern into the flag's value and arguments.
func FromLogFlag(c *cobra.Command, to *[]string, usage string) {
	c.Flags().StringArrayVar(to, "from-log", nil, usage)
	c.Args = func(c *cobra.Command, args []string) error {
		if len(*to) == 0 {
			return None(c, args)
		}
		*to = append(*to, args...)
		return nil
	}
}

// RefuseFlags returns an error for each named flag that was given though it has no meaning.
// As says why, such as "with --from-log".
func RefuseFlags(f *pflag.FlagSet, as string, names ...string) error {
	var faults []error
	for _, name := range names {
		if f.Changed(name) {
			faults = append(faults, fmt.Errorf("--%s has no meaning %s", name, as))
		}
	}
	return errors.Join(faults...)
}

// FaultIf returns an error of that text where bad holds, and nil otherwise. What several flags
// have to hold is then a list: of errors.Join for all faults, of cmp.Or for the first.
func FaultIf(bad bool, format string, args ...any) error {
	if bad {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// mostSeeds is the most seeds that fit in memory: the results of each run are kept to the end.
const mostSeeds = 100_000

// CheckSeeds returns an error if the value of a flag is not a number of runs that can be made.
func CheckSeeds(flag string, n int) error {
	switch {
	case n < 1:
		return fmt.Errorf("%s %d: at least 1 is needed", flag, n)
	case n > mostSeeds:
		return fmt.Errorf("%s %d: at most %d are possible", flag, n, mostSeeds)
	}
	return nil
}

// KeyFrom returns the key in the environment variable that --api-key-env names, or "" if the
// flag names none.
func KeyFrom(variable string) (key string, err error) {
	if variable == "" {
		return "", nil
	}
	if key, err = setting.Key(variable, "the key"); err != nil {
		return "", fmt.Errorf("--api-key-env: %w", err)
	}
	return key, nil
}

// NoticeOn returns a function that prints notes, such as the requests of a trace that are left out.
func NoticeOn(stderr io.Writer) func(string) {
	return func(text string) { fmt.Fprintln(stderr, "note:", text) }
}

// ObjectiveFlag adds a flag that names an objective. Its default is the scenario's objective,
// which the command fills in.
func ObjectiveFlag(f *pflag.FlagSet, to *evaluation.Objective, name, usage string) {
	f.Var(objectiveValue{to}, name, usage)
	f.Lookup(name).DefValue = ""
}

// objectiveValue is the value of such a flag. It refuses an empty name: a script whose variable
// is unset would otherwise train or tune for mean utility.
type objectiveValue struct{ *evaluation.Objective }

// Set implements [github.com/spf13/pflag.Value].
func (v objectiveValue) Set(text string) error {
	if text == "" {
		return errors.New("want an objective: " + evaluation.ObjectiveForms)
	}
	return v.UnmarshalText([]byte(text))
}

// Type implements [github.com/spf13/pflag.Value].
func (objectiveValue) Type() string { return "objective" }
