package cli

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/internal/scenario"
)

// A Section is a group of commands in the help, with an example of its commands.
type Section struct {
	ID, Title string
	// Example is a command line without "gearshift ".
	Example string
}

// A Listing is how the help shows a command.
type Listing struct {
	// Section is the ID of its section. Subcommands have none.
	Section string
	// Example is one command line or several, each without "gearshift ".
	Example string
	// Synonyms are words for which the command is suggested.
	Synonyms []string
}

// Arrange puts the commands into sections and gives each command without an example the
// listing's. Listed has each command by its path below the root, such as "policy ls".
func Arrange(root *cobra.Command, sections []Section, listed map[string]Listing) {
	for _, s := range sections {
		root.AddGroup(&cobra.Group{ID: s.ID, Title: s.Title + ", for example " + root.Name() + " " + s.Example + ":"})
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			path := strings.TrimPrefix(sub.CommandPath(), root.Name()+" ")
			at := listed[path]
			if c == root && !sub.Hidden {
				sub.GroupID = at.Section
			}
			if sub.Example == "" && at.Example != "" {
				sub.Example = "  gearshift " + strings.ReplaceAll(at.Example, "\n", "\n  gearshift ")
			}
			sub.SuggestFor = append(sub.SuggestFor, at.Synonyms...)
			sub.Long = wrap(sub.Long)
			walk(sub)
		}
	}
	walk(root)
	root.SetUsageTemplate(narrow(root.UsageTemplate()))
	root.SetHelpCommand(helpCommand())
}

// HelpWidth is the most columns of a line of help.
const HelpWidth = 100

// narrow changes cobra's template: it wraps flags, and leaves out the usage line of a group of
// commands, which does nothing by itself.
func narrow(template string) string {
	template = strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", HelpWidth))
	return strings.Replace(template, "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1)
}

// wrap breaks the long lines of a text at spaces. If a line begins with a "Word:", the rest of
// it is indented to the text after that word.
func wrap(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if word, rest, ok := strings.Cut(line, ": "); ok && indent == "" && !strings.Contains(word, " ") {
			indent = strings.Repeat(" ", len(line)-len(strings.TrimLeft(rest, " ")))
		}
		for utf8.RuneCountInString(line) > HelpWidth {
			at := strings.LastIndexByte(string([]rune(line)[:HelpWidth+1]), ' ')
			if at <= len(indent) {
				break
			}
			out = append(out, line[:at])
			line = indent + line[at+1:]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// helpCommand returns cobra's help command, except that it fails for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command", DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && of.HasSubCommands() {
				return NoSubcommand(of, rest)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// MissingFlags returns an error that names the required flags that were not given.
func MissingFlags(c *cobra.Command) error {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, required := f.Annotations[cobra.BashCompOneRequiredFlag]; required && !f.Changed {
			value, _ := pflag.UnquoteUsage(f)
			names = append(names, strings.TrimSpace("--"+f.Name+" "+value))
		}
	})
	if len(names) == 0 {
		return nil
	}
	be := "is"
	if len(names) > 1 {
		be = "are"
	}
	return fmt.Errorf("%s %s missing; see %s --help", strings.Join(names, " and "), be, c.CommandPath())
}

// flagValues describe what flags take, by the type's name. The parser's own messages use the
// words of the Go library.
var flagValues = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, not negative", "uint": "a whole number, not negative",
	"float64": "a number, such as 0.5", "duration": "a time with its unit, such as 30s or 5m", "bool": "true or false",
	"intSlice": "whole numbers, such as 1,2,4",
}

// FlagFault adds to the error about a flag what was probably meant, and where flags are listed.
func FlagFault(c *cobra.Command, err error) error {
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		meant := scenario.Closest(name, names)
		for _, long := range names { // as --admin-addr of serve, where other commands have --admin
			if meant == "" && strings.HasPrefix(long, name+"-") {
				meant = long
			}
		}
		if meant != "" {
			return fmt.Errorf("%w; did you mean --%s? See %s --help", err, meant, c.CommandPath())
		}
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		if want := flagValues[invalid.GetFlag().Value.Type()]; want != "" {
			return fmt.Errorf("--%s %q: want %s; see %s --help", invalid.GetFlag().Name, invalid.GetValue(), want, c.CommandPath())
		}
	}
	return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
}

// meant returns the command that a word probably stands for, as part of a message, or "".
func meant(c *cobra.Command, word string, names []string) string {
	name := scenario.Closest(word, names)
	for _, sub := range c.Commands() {
		for _, other := range sub.SuggestFor {
			if strings.EqualFold(other, word) {
				name = sub.Name()
			}
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q? There", name)
}
