package cli

import (
	"errors"

	"github.com/spf13/pflag"

	"gearshift/env/objective"
)

// ObjectiveFlag adds a flag that names an objective. Its default is the scenario's objective,
// which the command fills in.
func ObjectiveFlag(f *pflag.FlagSet, to *objective.Objective, name, usage string) {
	f.Var(objectiveValue{to}, name, usage)
	f.Lookup(name).DefValue = ""
}

// objectiveValue is the value of such a flag. It refuses an empty name: a script whose variable
// is unset would otherwise train or tune for mean utility.
type objectiveValue struct{ *objective.Objective }

// Set implements [github.com/spf13/pflag.Value].
func (v objectiveValue) Set(text string) error {
	if text == "" {
		return errors.New("want an objective: " + objective.Forms)
	}
	return v.UnmarshalText([]byte(text))
}

// Type implements [github.com/spf13/pflag.Value].
func (objectiveValue) Type() string { return "objective" }
