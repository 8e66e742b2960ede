//go:build serveonly

package main

import (
	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/modality"
)

// modalityCommands is the group `gearshift modality`. This build trains nothing.
func modalityCommands() *cobra.Command { return modality.NewCommand() }
