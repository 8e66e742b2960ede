//go:build serveonly

package main

import "github.com/spf13/cobra"

// trainCommands are none: this build leaves the training stack out.
func trainCommands() []*cobra.Command { return nil }

const trainingStack = "not in this build (serveonly)"
