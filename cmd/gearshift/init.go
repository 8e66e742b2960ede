package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/calibrate/draft"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
)

// initOptions are the flags of init.
type initOptions struct {
	askedEngines
	out, task  string
	quality    map[string]string
	force, yes bool
}

func newInitCommand() *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init --engine [HOST=]URL…",
		Short: "Write a scenario from running engines",
		Long: `Ask each engine for its models, contexts and KV caches, and write a scenario with them as
upstreams. vLLM, SGLang, llama.cpp, Ollama and "gearshift engine" are asked by endpoints of
their own too. Every number that no engine reports is marked with "# guess" in the file. Engines
with the same HOST share a GPU or machine; the same model on several hosts is one variant with
several replicas.`,
		Example: `  gearshift init --engine gpu0=http://10.0.0.1:8000 --engine gpu1=http://10.0.0.2:8000
  gearshift init --engine http://127.0.0.1:11434 --quality llama3.2:1b=0.6,llama3.1:8b=0.9`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			return initialise(c.Context(), o, question{c.InOrStdin(), c.ErrOrStderr()}, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.engines, "engine", nil, "`HOST=URL` of an engine, repeatable; without HOST= the URL's host (required)")
	o.keyFlag(f)
	f.StringVarP(&o.out, "out", "o", "mine.yaml", "`FILE` to write; - for standard output")
	f.BoolVar(&o.force, "force", false, "replace the file")
	f.StringToStringVar(&o.quality, "quality", nil, "how good an answer of each is, `VARIANT=Q,…` such as small=0.6,large=0.9")
	f.BoolVar(&o.yes, "yes", false, "take the default for every question")
	f.BoolVar(&o.probe, "probe", false, "send each model one short request, to time its tokens")
	f.StringVar(&o.task, "task", "chat", "`NAME` of the task")
	f.Float64Var(&o.deadline, "deadline-ms", 0, "deadline per output token (default: a guess by the largest model)")
	f.DurationVar(&o.timeout, "timeout", engineTimeout, "time for an engine to answer a question")
	return c
}

func initialise(ctx context.Context, o initOptions, q question, stdout io.Writer) error {
	targets, err := o.targets()
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	fleet, err := o.discover(ctx, targets)
	if err != nil {
		return err
	}
	c := draft.Choices{Name: o.name(), Task: o.task, DeadlineMS: o.deadline}
	if c.Quality, c.QualitySaid, err = o.qualities(fleet, q); err != nil {
		return err
	}
	text, guesses, err := fleet.Document(c)
	if err != nil {
		return err
	}
	if o.out == "-" {
		_, err = stdout.Write(text)
		return err
	}
	if err := output.Install(o.out, text, o.force); err != nil {
		return fmt.Errorf("cannot write the scenario: %w", err)
	}
	return o.next(stdout, fleet, guesses)
}

func (o *initOptions) check() error {
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %v: want a time above 0", o.timeout)
	}
	if o.deadline < 0 {
		return fmt.Errorf("--deadline-ms %v: want milliseconds above 0", o.deadline)
	}
	if o.out == "-" || o.force {
		return nil
	}
	if _, err := os.Lstat(o.out); err == nil { // before anybody is asked anything
		return fmt.Errorf("%s already exists; --force replaces it, -o FILE writes another", o.out)
	}
	return nil
}

// question is who is asked, and where.
type question struct {
	in  io.Reader
	out io.Writer
}

// watched reports whether a user is at the terminal to answer.
func (q question) watched() bool {
	f, ok := q.in.(*os.File)
	return ok && output.IsTerminal(f) && output.IsTerminal(q.out)
}

// qualities are the user's numbers, or the defaults that were agreed to.
func (o *initOptions) qualities(f *draft.Fleet, q question) (list []float64, said bool, err error) {
	offered := f.Qualities()
	list = slices.Clone(offered)
	var names []string
	for _, v := range f.Variants {
		names = append(names, v.Name)
	}
	for name, text := range o.quality {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, false, fmt.Errorf("--quality %s=%s: no variant %q; there are %s", name, text, name, strings.Join(names, ", "))
		}
		if list[i], err = qualityOf(text); err != nil {
			return nil, false, fmt.Errorf("--quality %s=%s: %w", name, text, err)
		}
	}
	if len(o.quality) > 0 && len(o.quality) < len(names) && !o.yes {
		var missing []string
		for _, name := range names {
			if _, ok := o.quality[name]; !ok {
				missing = append(missing, name)
			}
		}
		return nil, false, fmt.Errorf("--quality lacks %s; --yes takes the default for it", strings.Join(missing, ", "))
	}
	switch {
	case len(o.quality) == len(names) || len(names) == 1:
		return list, true, nil
	case o.yes:
		return list, false, nil
	case !q.watched():
		return nil, false, fmt.Errorf("how good are the answers of %s? There is no terminal to ask; want --quality %s, or --yes to take these numbers as a guess", strings.Join(names, ", "), pairsOf(names, offered))
	}
	return q.qualities(names, offered)
}

// qualities asks for a number for each name, and offers one.
func (q question) qualities(names []string, offered []float64) (list []float64, said bool, err error) {
	fmt.Fprintln(q.out, "How good is an answer in time, from 0 to 1? Accuracy on your own questions, for instance. Enter takes the number in brackets.")
	lines := bufio.NewScanner(q.in)
	list, said = slices.Clone(offered), false
	for i, name := range names {
		for {
			fmt.Fprintf(q.out, "quality of %s [%v]: ", name, offered[i])
			if !lines.Scan() {
				return nil, false, errors.Join(errors.New("no answer came"), lines.Err())
			}
			text := strings.TrimSpace(lines.Text())
			if text == "" {
				break
			}
			x, err := qualityOf(text)
			if err == nil {
				list[i], said = x, true
				break
			}
			fmt.Fprintln(q.out, " ", err)
		}
	}
	return list, said, nil
}

func qualityOf(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, fmt.Errorf("%q: want a number from 0 to 1, such as 0.85", text)
	}
	return x, nil
}

func pairsOf(names []string, values []float64) string {
	var list []string
	for i, name := range names {
		list = append(list, fmt.Sprintf("%s=%v", name, values[i]))
	}
	return strings.Join(list, ",")
}

// name is that of the scenario: the file's.
func (o *initOptions) name() string {
	if o.out == "-" {
		return "mine"
	}
	return scenario.NameOf(o.out)
}

// next says what was written and what to do with it.
func (o *initOptions) next(out io.Writer, f *draft.Fleet, guesses int) error {
	for i := range f.Engines {
		if e := &f.Engines[i]; len(e.Unloaded) > 0 {
			fmt.Fprintf(out, "%s: left out, as they are not loaded: %s; load them and repeat this command with --force to have them\n", e.URL, strings.Join(e.Unloaded, ", "))
		}
	}
	walk := strings.TrimSuffix(filepath.Base(o.out), filepath.Ext(o.out)) + "-walk"
	file := quoted(o.out)
	_, err := fmt.Fprintf(out, `%s: %s, %s, %s; %s marked "# guess"

Next:
  gearshift scenario check %s
  gearshift calibrate --scenario %s --dir %s
    measures the engines, tunes the rules, trains a policy on what it measured, and compares them
  gearshift policy promote calibrated --store %s/policies.db
    puts the policy into production; where a rule is as good, calibrate ends with the command for that
  gearshift serve --scenario %s/scenario.yaml --store %s/policies.db
    routes requests to the engines

At once, on these numbers:
  gearshift serve --scenario %s
    routes by a rule, and tunes the rules in the background
`, o.out, many(len(f.Variants), "variant"), many(len(f.Replicas), "replica"), many(len(f.Hosts), "host"), many(guesses, "number"), file, file, quoted(walk), quoted(walk), quoted(walk), quoted(walk), file)
	return err
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// quoted is an argument as a shell takes it.
func quoted(arg string) string {
	if strings.ContainsFunc(arg, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%=,", r) && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}
