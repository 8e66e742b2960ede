//go:build serveonly

package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
)

// trainCommands are none: this build leaves the training stack out.
func trainCommands() []*cobra.Command { return nil }

const trainingStack = "not in this build (serveonly)"

// evaluateImported evaluates nothing: that is training's business too, and
// promote says that there is no comparison.
func evaluateImported(context.Context, *scenario.Scenario, *checkpoints.Checkpoint, io.Writer) (json.RawMessage, error) {
	return nil, nil
}
