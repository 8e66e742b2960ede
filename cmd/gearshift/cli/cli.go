// Package cli holds what the commands share: groups of subcommands, flags, the default store,
// and the form of help and of messages about wrong use.
package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Group returns a command that does nothing without one of its subcommands.
func Group(name, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, RunE: NoSubcommand, DisableFlagsInUseLine: true}
	c.AddCommand(subcommands...)
	return c
}

// NoSubcommand prints the help of a group of commands, or reports an error if args begins
// with a word that is not one of them.
func NoSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	there := meant(c, args[0], names)
	if there == "" {
		there = "there"
	}
	return fmt.Errorf("unknown command %q for %q; %s are %s", args[0], c.CommandPath(), there, strings.Join(names, ", "))
}

// One accepts exactly the one argument that the command's usage line names.
func One(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("expected 1 argument, got %d: want gearshift %s", len(args), strings.TrimPrefix(c.UseLine(), "gearshift "))
	}
	return nil
}

// None accepts no argument. Where one is the name of a scenario's file, it says by which flag that is given.
func None(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	want := fmt.Sprintf("see %s --help", c.CommandPath())
	if ext := filepath.Ext(args[0]); c.Flags().Lookup("scenario") != nil && (ext == ".yaml" || ext == ".yml") {
		want = "want --scenario " + args[0]
	}
	return fmt.Errorf("unexpected argument %q: %s takes flags alone; %s", args[0], c.CommandPath(), want)
}
