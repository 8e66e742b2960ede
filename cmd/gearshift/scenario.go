package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/cmd/gearshift/operate"
	"gearshift/internal/calibrate/draft"
	"gearshift/internal/league"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

func newScenarioCommand() *cobra.Command {
	return cli.Group("scenario", "List, show, check, adapt and save scenarios",
		&cobra.Command{
			Use: "ls", Short: "List the built-in scenarios", Args: cli.None,
			Run: func(c *cobra.Command, _ []string) {
				for _, name := range workloads.ScenarioNames() {
					fmt.Fprintln(c.OutOrStdout(), name)
				}
			},
		},
		&cobra.Command{
			Use: "show NAME|FILE", Short: "Print a scenario, ready to edit", Args: cli.One,
			RunE: func(c *cobra.Command, args []string) error { return showScenario(c, args[0]) },
		},
		newCheckCommand(), newUpstreamsCommand(), newScenarioProfilesCommand(), newDrawCommand(), operate.NewScenarioSave(),
	)
}

func newDrawCommand() *cobra.Command {
	var seed uint64
	c := &cobra.Command{
		Use:   "draw --seed N",
		Short: "Print a scenario of a fleet drawn at random",
		Long: `Print a valid scenario of 2 to 6 sizes on 1 to 16 unequal hosts, with tasks, deadlines,
qualities and lengths drawn at random by the seed:

  gearshift scenario draw --seed 7 > drawn-7.yaml
  gearshift eval --scenario drawn-7.yaml`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := league.Draw(seed)
			return printed(c, text, err)
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 1, "of the fleet")
	return c
}

// showScenario prints the text itself, with its comments, once it is valid.
func showScenario(c *cobra.Command, ref string) error {
	if err := scenario.Valid(ref); err != nil {
		return err
	}
	text, err := scenario.Text(ref)
	return printed(c, text, err)
}

// printed prints a text, unless there was an error.
func printed(c *cobra.Command, text []byte, err error) error {
	if err == nil {
		_, err = c.OutOrStdout().Write(text)
	}
	return err
}

func newUpstreamsCommand() *cobra.Command {
	var at []string
	c := &cobra.Command{
		Use:   "upstreams NAME|FILE --at [HOST=]URL…",
		Short: "Print a scenario whose replicas are OpenAI-compatible servers",
		Long: `Print the scenario with serving.backend set to upstream, and the server at the URL of
each host for the replicas there, ready for "gearshift serve":

  gearshift scenario upstreams titan-rtx-opt --at gpu0=http://10.0.0.1:8000 --at gpu1=…

A URL alone is the first host's server; the others' are taken to be on the ports that
follow, as "gearshift engine" serves them. REPLICA=URL is the server of one replica, such
as a vLLM server of its own: --at large@gpu0=http://10.0.0.1:8001.`,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			text, err := draft.WithUpstreams(args[0], at)
			return printed(c, text, err)
		},
	}
	c.Flags().StringArrayVar(&at, "at", nil, "`URL` of the first host's server, HOST=URL for each host, or REPLICA=URL")
	if err := c.MarkFlagRequired("at"); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

func newScenarioProfilesCommand() *cobra.Command {
	var from []string
	c := &cobra.Command{
		Use:   "profiles NAME|FILE --from PROFILE…",
		Short: "Print a scenario with measured profiles",
		Long: `Print the scenario with the profiles of its variants replaced by those of the files, as
"gearshift profile measure" writes them. Figures of memory that a file leaves at 0
stay as they are; a prompt_ms, request_ms or crowding that a file lacks is taken out:

  gearshift scenario profiles mine.yaml --from small.yaml --from large.yaml > measured.yaml`,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			text, err := draft.WithProfiles(args[0], from)
			return printed(c, text, err)
		},
	}
	c.Flags().StringArrayVar(&from, "from", nil, "`FILE` of a measured profile; may be repeated (required)")
	if err := c.MarkFlagRequired("from"); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}
