package operate

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/app"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
)

// NewScenarioSave makes the command that keeps what a router has learned.
func NewScenarioSave() *cobra.Command {
	o := operator{reads: true}
	var out string
	var force bool
	c := &cobra.Command{
		Use:   "save [-o FILE]",
		Short: "Write the scenario of a running router, with what it has learned",
		Long: `Write the scenario that a running router serves, with what it has learned since its start. A
comment on each value names its source: an engine, a guess, or so many answers. Values without
such a comment are those of the router's own file.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			var now app.SavedScenario
			if err := o.ask(c.Context(), http.MethodGet, "/admin/scenario", nil, &now); err != nil {
				return err
			}
			return saveScenario(c.OutOrStdout(), now.Text, out, force)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "mine.yaml", "`FILE` to write; - for standard output")
	c.Flags().BoolVar(&force, "force", false, "replace the file")
	o.flags(c, localAdmin())
	return c
}

// saveScenario writes a scenario that is valid.
func saveScenario(stdout io.Writer, text, out string, force bool) error {
	if out == "-" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	if _, err := scenario.Parse(out, []byte(text)); err != nil {
		return fmt.Errorf("the router's scenario is not one for this version of gearshift: %w", err)
	}
	if err := output.Install(out, []byte(text), force); err != nil {
		return fmt.Errorf("cannot write the scenario: %w", err)
	}
	_, err := fmt.Fprintf(stdout, "%s: written; gearshift serve --scenario %s serves it\n", out, out)
	return err
}
