//go:build !serveonly

package measure

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/gate"
	"gearshift/env/evaluation"
)

// conclude ends the walk: how the trained policy did on the engines and in the simulator,
// and what to do next. Of what a folder does not hold, as one that was cleared, it says
// nothing.
func (c *calibration) conclude() {
	if turns := c.replayed(); len(turns) > 0 {
		fmt.Fprintln(c.stdout, onEngines(c.compared(), turns))
	}
	store := &checkpoints.Store{Path: c.at(storeName)}
	entry, err := store.Lookup(checkpoints.Ref{Name: calibrated, Alias: checkpoints.Newest})
	if err != nil {
		return
	}
	if v, ok := gate.Stored(entry); ok {
		fmt.Fprintf(c.stdout, "in the simulator: %s", gate.Conclusion(v, gate.PromotionIn(store.Path)))
		fmt.Fprintf(c.stdout, "then serve it: gearshift serve --scenario %s --store %s\n", c.at("scenario.yaml"), store.Path)
	}
}

// replayed returns the turns of the walk; none if they are not all there.
func (c *calibration) replayed() (turns []turn) {
	text, err := os.ReadFile(c.at("replay.json"))
	if err != nil || json.Unmarshal(text, &turns) != nil || len(turns) != len(c.compared())*c.repetitions {
		return nil
	}
	return turns
}

// onEngines compares the trained policy, which is the first, with the alternative that
// earned most in the replays.
func onEngines(policies []string, turns []turn) string {
	if len(policies) < 2 {
		return "on the engines: there was no alternative to compare with"
	}
	trained := turnReports(policies, turns, 0)
	best, behind, within := "", math.Inf(1), 0.0
	for i := 1; i < len(policies); i++ {
		if by, se := ahead(trained, turnReports(policies, turns, i)); by < behind {
			best, behind, within = policies[i], by, se
		}
	}
	if len(trained) < 2 {
		return fmt.Sprintf("on the engines: %s over the best alternative, %s, by %+.4f in one repetition, which may be chance: want --repetitions 3 or more", policies[0], best, behind)
	}
	const sure = 2 // standard errors
	word := evaluation.Level
	if behind > sure*within {
		word = evaluation.Better
	} else if behind < -sure*within {
		word = evaluation.Worse
	}
	return fmt.Sprintf("on the engines: %s over the best alternative, %s, by %+.4f ± %.4f, paired over %d repetitions: %s", policies[0], best, behind, within, len(trained), word)
}
