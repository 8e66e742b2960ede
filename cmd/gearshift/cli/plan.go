package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/internal/output"
)

// Plan has the command read a file of JSON, which holds what is named so, and print as JSON what plan makes of it.
// Plan is called with the file's name and its text.
func Plan(c *cobra.Command, what string, plan func(name string, text []byte) (any, error)) {
	var path string
	c.Flags().StringVar(&path, "in", "", "`file` with the "+what+" as JSON; - is standard input")
	_ = c.MarkFlagRequired("in")
	c.Args = None
	c.RunE = func(c *cobra.Command, _ []string) error {
		text, name, err := output.Read(path, c.InOrStdin())
		var planned any
		if err == nil {
			planned, err = plan(name, text)
		}
		if err != nil {
			return fmt.Errorf("cannot plan: %w", err)
		}
		if err := output.JSON(c.OutOrStdout(), planned); err != nil {
			return fmt.Errorf("cannot print the plan: %w", err)
		}
		return nil
	}
}
