// Package reports makes the reports of `gearshift paper`: it declares the flags that all have, plays
// settings over seeds, keeps their runs and lays out sections. Each system has a folder below this
// one with the sections of its own; the command lists them.
package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"gearshift/env/evaluation/report"
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
	// Flags is nil where there is New.
	Flags func(f *Flags) Make
}

// Make makes the report that is to go into the folder out. It calls [Begin] once it has
// checked what it was given. Into out it writes only what a second run uses again, such as
// policies; the rest is the report's.
type Make func(ctx context.Context, out string, by Program, stderr io.Writer) (*report.Report, error)

// Flags are those of a report's command, with the ones that many commands have.
type Flags struct {
	*pflag.FlagSet
	Scenario func(to *string) // declares --scenario
	Store    func(to *string) // declares --store
	// Refuse is an error for each of the flags that was given though it has no meaning so.
	Refuse func(so string, names ...string) error
}

// Program is what a report takes of the program that writes it.
type Program struct {
	Version string
	// Train stores the policy, unless one of the same ingredients is stored, and
	// returns its reference.
	Train func(context.Context, Training) (ref string, err error)
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
	Uncompared         bool // without the comparison with the rules
}

// Begin makes the folder for a report. It refuses one whose files the report would replace
// though they are not a report's, before anything has taken its time.
func Begin(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("cannot make folder for the report: %w", err)
	}
	return report.Replaceable(out)
}

// Write makes the report, writes it into the folder out and prints what it says.
func Write(ctx context.Context, of Make, out string, by Program, stdout, stderr io.Writer) error {
	if out == "" {
		return errors.New("--out is missing: the folder for the report")
	}
	r, err := of(ctx, out, by, stderr)
	if err != nil {
		return err
	}
	return write(r, out, stdout)
}

// write writes the report into the folder and prints its verdict.
func write(r *report.Report, out string, stdout io.Writer) error {
	if err := r.Write(out); err != nil {
		return err
	}
	fmt.Fprintln(stdout, strings.Join(r.Verdict, "\n"))
	if r.Summary != "" {
		fmt.Fprintf(stdout, "\n%s\n", r.Summary)
	}
	fmt.Fprintf(stdout, "report: %s\n", filepath.Join(out, "report.html"))
	return nil
}
