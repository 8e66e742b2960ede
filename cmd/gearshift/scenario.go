package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/workloads"
)

func newScenarioCommand() *cobra.Command {
	return group("scenario", "List, show, check and adapt scenarios",
		&cobra.Command{
			Use: "ls", Short: "List the built-in scenarios", Args: cobra.NoArgs,
			Run: func(c *cobra.Command, _ []string) {
				for _, name := range workloads.ScenarioNames() {
					fmt.Fprintln(c.OutOrStdout(), name)
				}
			},
		},
		&cobra.Command{
			Use: "show NAME|FILE", Short: "Print a scenario, ready to edit", Args: one,
			RunE: func(c *cobra.Command, args []string) error { return showScenario(c, args[0]) },
		},
		&cobra.Command{
			Use: "check NAME|FILE", Short: "Check a scenario: every fault, with its line and key", Args: one,
			RunE: func(c *cobra.Command, args []string) error { return checkScenario(c, args[0]) },
		},
		newUpstreamsCommand(), newScenarioProfilesCommand(),
	)
}

// showScenario prints the text itself, with its comments, once it is valid.
func showScenario(c *cobra.Command, ref string) error {
	if _, err := scenario.Load(ref); err != nil {
		return err
	}
	text, err := scenarioText(ref)
	if err != nil {
		return err
	}
	_, err = c.OutOrStdout().Write(text)
	return err
}

func checkScenario(c *cobra.Command, ref string) error {
	s, err := scenario.Load(ref)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s is a valid scenario: %d tasks, %d variants, %d hosts\n", ref, len(s.Tasks), len(s.Variants), len(s.Hosts))
	table, tokens := s.Table(), s.KVTokens()
	for i, r := range table.Replicas {
		fmt.Fprintf(out, "  %-24s KV cache of %d tokens\n", r.Name, tokens[i])
	}
	fmt.Fprintf(out, "scenario hash %.12s, observation hash %.12s\n", s.Hash(), s.Spec().Hash())
	return nil
}
