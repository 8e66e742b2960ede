package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"gearshift/env/evaluation/report"
)

// Run holds what the flags of all reports ask for, and what a report takes of the program.
type Run struct {
	Program
	Out    string
	Quick  bool
	Seeds  int
	Only   []string // sections; empty is all
	Stderr io.Writer

	name  string // of the report
	flags *Flags
	given []*pflag.Flag // those that Repeat may name
	part  string        // the section that is made

	sweeps int // how many the section has begun that count their settings
}

// Seeds are how many seeds a report plays unless --seeds is given, and the flag's help.
type Seeds struct {
	Usual, Quick int
	Of           string
}

// Study is a report in the making.
type Study struct {
	*Run
	Sections []Section
	// Check reports errors of flags before anything is written; nil is no error.
	Check func() error
	// Open prepares what the sections play, and returns the report's title and scenario.
	Open func(ctx context.Context) (*report.Report, error)
}

// Section makes a part of a report, which --only may name.
type Section struct {
	ID, Title string
	Make      func(ctx context.Context, p *Part) error
	Needs     string // flag without which the section is left out
	Slow      bool   // --quick leaves the section out, unless --only names it
}

// Part holds what a section adds to the report. A part without text, tables and figures adds no section.
type Part struct {
	report.Section
	Report *report.Report
}

// Head adds a sentence to the verdict that heads the report.
func (p *Part) Head(format string, args ...any) {
	p.Report.Verdict = append(p.Report.Verdict, fmt.Sprintf(format, args...))
}

// Say adds a sentence to the section's text.
func (p *Part) Say(format string, args ...any) {
	p.Text = strings.TrimSpace(p.Text + " " + fmt.Sprintf(format, args...))
}

// Declare declares the report's flags and returns what makes the report, writes it into --out and
// prints its verdict.
func (r *Report) Declare(f *Flags) func(ctx context.Context, by Program, stdout, stderr io.Writer) error {
	run := &Run{name: r.Name, flags: f}
	study := r.New(f, run)
	f.StringVar(&run.Out, "out", "", "`folder` for the report (required)")
	f.BoolVar(&run.Quick, "quick", false, r.Quick)
	f.IntVar(&run.Seeds, "seeds", 0, fmt.Sprintf("%s (default %d, or %d with --quick)", r.Seeds.Of, r.Seeds.Usual, r.Seeds.Quick))
	f.StringSliceVar(&run.Only, "only", nil, "`sections` to make, of "+study.names()+" (default all)")
	f.VisitAll(func(x *pflag.Flag) {
		if x.Name != "out" {
			run.given = append(run.given, x)
		}
	})
	return func(ctx context.Context, by Program, stdout, stderr io.Writer) error {
		run.Program, run.Stderr = by, stderr
		if !f.Changed("seeds") {
			run.Seeds = r.Seeds.Usual
			if run.Quick {
				run.Seeds = r.Seeds.Quick
			}
		}
		if err := study.check(); err != nil {
			return err
		}
		made, err := study.Make(ctx)
		if err != nil {
			return err
		}
		made.Repeat = cmp.Or(made.Repeat, run.Repeat())
		if err := made.Write(run.Out); err != nil {
			return err
		}
		fmt.Fprintln(stdout, strings.Join(made.Verdict, "\n"))
		if made.Summary != "" {
			fmt.Fprintf(stdout, "\n%s\n", made.Summary)
		}
		fmt.Fprintf(stdout, "report: %s\n", filepath.Join(run.Out, "report.html"))
		return nil
	}
}

// check checks the flags, and makes the report's folder. It refuses a folder whose files the report
// would replace though they are not a report's, before anything has taken its time.
func (s *Study) check() error {
	switch {
	case s.Out == "":
		return errors.New("--out is missing: the folder for the report")
	case s.Seeds < 2 || s.Seeds > 10_000:
		return fmt.Errorf("--seeds: %d must be from 2 to 10000", s.Seeds)
	}
	for _, id := range s.Only {
		i := slices.IndexFunc(s.Sections, func(x Section) bool { return x.ID == id })
		if i < 0 {
			return fmt.Errorf("--only %q: no such section; the sections are %s", id, s.names())
		}
		if x := s.Sections[i]; x.Needs != "" && !s.Given(x.Needs) {
			return fmt.Errorf("--only %s: the section needs --%s", id, x.Needs)
		}
	}
	if s.Check != nil {
		if err := s.Check(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.Out, 0o755); err != nil {
		return fmt.Errorf("cannot make folder for the report: %w", err)
	}
	return report.Replaceable(s.Out)
}

// names lists the sections.
func (s *Study) names() string {
	var ids []string
	for _, x := range s.Sections {
		ids = append(ids, x.ID)
	}
	return strings.Join(ids, ", ")
}

// Make makes the sections that are asked for, in their order.
func (s *Study) Make(ctx context.Context) (*report.Report, error) {
	r, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(s.Sections), func(x Section) bool {
		if len(s.Only) > 0 {
			return !slices.Contains(s.Only, x.ID)
		}
		return x.Slow && s.Quick || x.Needs != "" && !s.Given(x.Needs)
	})
	for i, x := range list {
		if s.Stderr != nil {
			fmt.Fprintf(s.Stderr, "section %d of %d: %s\n", i+1, len(list), x.ID)
		}
		s.part, s.sweeps = x.ID, 0
		p := &Part{Section: report.Section{ID: x.ID, Title: x.Title}, Report: r}
		if err := x.Make(ctx, p); err != nil {
			return nil, err
		}
		if p.Text != "" || len(p.Tables)+len(p.Figures) > 0 {
			r.Sections = append(r.Sections, p.Section)
		}
	}
	if len(r.Verdict) == 0 {
		r.Verdict = []string{"These sections alone have tables and figures, and no verdict."}
	}
	return r, nil
}

// Given reports whether the flag was given.
func (r *Run) Given(flag string) bool { return r.flags != nil && r.flags.Changed(flag) }

// Repeat returns the command that makes the report again: its flags as they were given.
func (r *Run) Repeat() string {
	command := "gearshift paper " + r.name
	for _, x := range r.given {
		if !x.Changed {
			continue
		}
		values := []string{x.Value.String()}
		if list, ok := x.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case v == x.NoOptDefVal: // a switch
				command += " --" + x.Name
			case v == "" || strings.ContainsFunc(v, special):
				command += fmt.Sprintf(" --%s '%s'", x.Name, strings.ReplaceAll(v, "'", `'\''`))
			default:
				command += fmt.Sprintf(" --%s %s", x.Name, v)
			}
		}
	}
	return command + " --out DIR\ngearshift " + r.Version
}

// special reports whether a shell may read the character in its own way.
func special(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_=:,.@/+", c)
}

// Counting returns what shows progress; it does nothing where nobody watches.
func (r *Run) Counting(what string) func(done, total int) {
	if r.Program.Counting != nil {
		if count := r.Program.Counting(what); count != nil {
			return count
		}
	}
	return func(int, int) {}
}
