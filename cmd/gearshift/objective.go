package main

import (
	"errors"

	"gearshift/env/objective"
)

// objectiveFlag is a flag that names an objective. An empty one is refused: a script whose
// variable is unset would else train or tune for mean utility.
type objectiveFlag struct{ *objective.Objective }

// Set implements [github.com/spf13/pflag.Value].
func (f objectiveFlag) Set(text string) error {
	if text == "" {
		return errors.New("want an objective: " + objective.Forms)
	}
	return f.UnmarshalText([]byte(text))
}

// Type implements [github.com/spf13/pflag.Value].
func (objectiveFlag) Type() string { return "objective" }
