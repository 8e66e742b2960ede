//go:build !serveonly

package main

import (
	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/jobtraining"
	"gearshift/cmd/gearshift/modality"
	"gearshift/cmd/gearshift/reports/mosel"
)

// modalityCommands is the group `gearshift modality`, with the command that trains.
func modalityCommands() *cobra.Command {
	c := modality.NewCommand()
	c.AddCommand(jobtraining.NewCommand(mosel.Trained()))
	return c
}
