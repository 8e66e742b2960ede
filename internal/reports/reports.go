// Package reports makes the reports of `gearshift paper`: it declares the flags that all have, plays
// settings over seeds, keeps their runs and lays out sections. Each system has a folder below this
// one with the sections of its own; the command lists them.
package reports

import (
	"context"

	"github.com/spf13/pflag"

	"gearshift/env"
	"gearshift/internal/scenario"
)

// Report is one that `gearshift paper NAME` makes.
type Report struct {
	Name    string // of the subcommand
	Short   string // a line of help
	Long    string
	Example string // arguments of the subcommand
	Quick   string // what --quick does
	Seeds   Seeds
	// New declares the report's own flags, and returns the study that reads them once they are given.
	New func(f *Flags, r *Run) Study
}

// Flags are those of a report's command, with the ones that many commands have.
type Flags struct {
	*pflag.FlagSet
	Scenario func(to *string) // declares --scenario
	Store    func(to *string) // declares --store
	// Refuse is an error for each of the flags that was given though it has no meaning so.
	Refuse func(so string, names ...string) error
}

// Program holds what a report takes of the program that writes it.
type Program struct {
	Version string
	// Train stores the policy, unless one of the same ingredients is stored, and
	// returns its reference.
	Train func(context.Context, Training) (ref string, err error)
	// FineTune stores the policy, and returns its reference and by how much the log shows the engines of
	// each variant to be slower than their profiles.
	FineTune func(context.Context, Tuning) (ref string, factors map[string]float64, err error)
	// Counting counts what is being done for those who watch; it may return nil.
	Counting func(what string) func(done, total int)
}

// Training is the policy that a report wants.
type Training struct {
	Scenario           string             // by its name or file
	On                 *scenario.Scenario // which need not be that file's
	Store              string             // file
	Preset, Name, From string
	Seed               uint64
	Uncompared         bool   // without the comparison with the rules
	Trace              string // whose first half it is trained on; empty: the scenario's load
}

// Tuning is a policy that a report wants fine-tuned on requests served where engines need not follow the
// scenario's profiles.
type Tuning struct {
	Scenario          string
	On                *scenario.Scenario // that file's
	Store, From, Name string
	Fleet             env.Config // on which the policy From serves them
	Requests          int        // of u1
}
