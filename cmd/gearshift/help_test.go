package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
)

// commands are all that are shown.
func commands(c *cobra.Command) (list []*cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			list = append(append(list, sub), commands(sub)...)
		}
	}
	return list
}

// Every command has an example that it understands, and is in a group, which has one too.
func TestEveryCommandHasAnExample(t *testing.T) {
	for _, c := range commands(newRoot()) {
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			if !strings.HasPrefix(line, c.CommandPath()) {
				t.Errorf("%s: the example is of another command: %s", c.CommandPath(), line)
				continue
			}
			line = regexp.MustCompile(`\$\([^)]*\)`).ReplaceAllString(line, "x") // which a shell replaces
			found, rest, err := newRoot().Find(strings.Fields(line)[1:])
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err == nil && found.Args != nil {
				err = found.Args(found, found.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		if c.Parent().Parent() == nil && c.GroupID == "" && c.Name() != "version" {
			t.Errorf("%s is in no group", c.CommandPath())
		}
	}
	for _, s := range sections {
		found, rest, err := newRoot().Find(strings.Fields(s.Example))
		if err == nil {
			err = found.ParseFlags(rest)
		}
		if err != nil || found.GroupID != s.ID && found.Parent().GroupID != s.ID {
			t.Errorf("the example of %s is not of its commands: %s (%v)", s.Title, s.Example, err)
		}
	}
	help := succeed(t, "--help")
	for _, want := range []string{
		"Start, for example gearshift init", "Operate, for example gearshift policy", "Measure, for example gearshift profile",
		"Research, for example gearshift workload", "Examples:\n  gearshift init --engine",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("help has no %q", want)
		}
	}
}

func TestVersionFlag(t *testing.T) {
	if out := succeed(t, "--version"); !regexp.MustCompile(`^gearshift ` + regexp.QuoteMeta(version) + `.*\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
}

func TestDidYouMean(t *testing.T) {
	fail(t, []string{"polcy"}, `did you mean "policy"?`)
	fail(t, []string{"evaluate"}, `did you mean "eval"?`)
	fail(t, []string{"policy", "promte"}, `did you mean "promote"?`)
	fail(t, []string{"scenario", "chekc"}, `did you mean "check"?`)
	fail(t, []string{"xyzzy"}, `unknown command "xyzzy" for "gearshift"; there are`)
	fail(t, []string{"eval", "--scenari", "tiny"}, "did you mean --scenario?")
	fail(t, []string{"serve", "--admin", "127.0.0.1:8081"}, "did you mean --admin-addr?")
	fail(t, []string{"eval", "--xyzzy"}, "unknown flag: --xyzzy; see gearshift eval --help")
}

// The store is where the environment says, else here if it is here, else among the
// user's data; and --store goes before all of them.
func TestWhereTheStoreIs(t *testing.T) {
	data := t.TempDir()
	t.Chdir(t.TempDir())
	t.Setenv("GEARSHIFT_STORE", "")
	t.Setenv("XDG_DATA_HOME", data)
	want := func(path string) {
		t.Helper()
		if got := cli.DefaultStore(); got != path {
			t.Errorf("%q, want %q", got, path)
		}
	}
	want(filepath.Join(data, "gearshift", "gearshift.db"))
	t.Setenv("HOME", "/home/ann")
	t.Setenv("XDG_DATA_HOME", "relative")
	want("/home/ann/.local/share/gearshift/gearshift.db")
	t.Setenv("HOME", "")
	want("gearshift.db")
	t.Setenv("XDG_DATA_HOME", data)

	// What one command stores there another finds, without a word of where.
	succeed(t, "policy", "promote", "slackfit:0.9")
	if _, err := os.Stat(filepath.Join(data, "gearshift", "gearshift.db")); err != nil {
		t.Error(err)
	}
	if out := succeed(t, "policy", "ls"); !strings.Contains(out, "slackfit") {
		t.Errorf("%s", out)
	}
	succeed(t, "policy", "promote", "threshold:4", "--store", "gearshift.db")
	want("gearshift.db")
	if out := succeed(t, "policy", "ls"); !strings.Contains(out, "threshold") || strings.Contains(out, "slackfit") {
		t.Errorf("%s", out)
	}
	t.Setenv("GEARSHIFT_STORE", "/elsewhere/x.db")
	want("/elsewhere/x.db")
	if out := succeed(t, "policy", "ls", "--store", "gearshift.db"); !strings.Contains(out, "threshold") {
		t.Errorf("%s", out)
	}
}

// Help fits a terminal of 100 columns, but for a line that is copied: an example or a usage.
func TestHelpFitsATerminal(t *testing.T) {
	for _, c := range append(commands(newRoot()), newRoot()) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		for line := range strings.Lines(succeed(t, args...)) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > cli.HelpWidth && !strings.HasPrefix(line, "  gearshift ") && !strings.Contains(line, t.TempDir()) {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
	}
	if help := succeed(t, "policy", "--help"); strings.Contains(help, "gearshift policy\n") {
		t.Errorf("policy alone does nothing, and is a usage: %s", help)
	}
}

func TestHelpOfWhatIsNotThere(t *testing.T) {
	fail(t, []string{"help", "polcy"}, `did you mean "policy"?`)
	fail(t, []string{"help", "policy", "promte"}, `did you mean "promote"?`)
	if out := succeed(t, "help", "policy", "ls"); !strings.Contains(out, "gearshift policy ls [flags]") {
		t.Errorf("%s", out)
	}
}

// What is wrong with a flag is said in the words of who gave it.
func TestFlagFaults(t *testing.T) {
	fail(t, []string{"train", "--seed", "x"}, `--seed "x": want a whole number, not negative; see gearshift train --help`)
	fail(t, []string{"eval", "--seeds", "1.5"}, `--seeds "1.5": want a whole number;`)
	fail(t, []string{"replay", "--duration", "20"}, `--duration "20": want a time with its unit, such as 30s or 5m;`)
	fail(t, []string{"policy", "ls", "--wide=perhaps"}, `--wide "perhaps": want true or false;`)
	fail(t, []string{"replay"}, "--trace FILE and --url URL are missing; see gearshift replay --help")
	fail(t, []string{"replay", "--url", "http://127.0.0.1:1"}, "--trace FILE is missing;")
}
