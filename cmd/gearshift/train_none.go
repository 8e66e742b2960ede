//go:build serveonly

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/internal/league"
)

// trainCommands only say that this build leaves the training stack out, to who follows
// a guide in a container.
func trainCommands() []*cobra.Command {
	var list []*cobra.Command
	for _, name := range []string{"train", "calibrate", "paper"} {
		list = append(list, &cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return fmt.Errorf("%s is %s; run it where a build has it, and bring the policy here by gearshift policy export and import", name, trainingStack)
			},
		})
	}
	return list
}

// trainingExample: there is none without the training stack.
const trainingExample = ""

// remedy is how a store comes by a policy: a key of the log, and the commands.
func remedy(_, name, store string) (key, commands string) {
	return "to_import_one", fmt.Sprintf("gearshift policy import FILE.onnx --name %s --store %s && gearshift policy promote %s --store %s", name, store, name, store)
}

// leagueTrainer trains nothing without the training stack.
var leagueTrainer league.Trainer

const trainingStack = "not in this build (serveonly)"
