//go:build serveonly

package main

import (
	"github.com/spf13/cobra"
)

// modalityCommands is the group `gearshift modality`. This build trains nothing.
func modalityCommands() *cobra.Command { return newModalityCommand() }
