package calibrate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	"gonum.org/v1/gonum/stat/distuv"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/training/policies"
)

// conclude ends the walk: how the trained policy did on the engines and in the simulator, the verdict of
// both, and what to do next. It does not mention what the folder does not hold.
func (c *calibration) conclude() {
	var engines *comparison
	if turns := c.replayed(); len(turns) > 0 {
		engines = onEngines(c.compared(), turns)
		fmt.Fprintf(c.stdout, "on the engines: %s\n", engines)
	}
	store := &checkpoints.Store{Path: c.at(storeName)}
	entry, err := store.Lookup(checkpoints.Ref{Name: calibrated, Alias: checkpoints.Newest})
	if err != nil {
		return
	}
	if v, ok := policies.StoredVerdict(entry); ok {
		fmt.Fprintf(c.stdout, "in the simulator: %s\nverdict: %s", policies.VerdictLine(v), c.verdict(v, engines, policies.PromotionIn(store.Path)))
		fmt.Fprintf(c.stdout, "then serve it: gearshift serve --scenario %s --store %s\n", c.at("scenario.yaml"), store.Path)
	}
}

// verdict returns a line with the words of the simulator and the engines, and what to promote: what the simulator
// says, unless the engines contradict it.
func (c *calibration) verdict(v evaluation.Verdict, engines *comparison, promote policies.Promotion) string {
	if engines == nil || engines.best == "" {
		return policies.NextStep(v, promote)
	}
	words := fmt.Sprintf("%s in the simulator, %s on the engines", v.Word(), engines.word())
	switch {
	case v.Word() != evaluation.Better || engines.word() == evaluation.Better:
		return words + "; " + policies.Offer(v, promote) + "\n"
	case engines.word() == evaluation.Worse:
		return fmt.Sprintf("%s; promote the alternative: %s\n", words, promote(engines.best))
	}
	return fmt.Sprintf("%s; settle it before you promote: gearshift calibrate --scenario %s --dir %s --from replay --repetitions %d\nto promote it all the same: %s\n",
		words, c.Options.Scenario, c.Dir, max(3, 2*c.Repetitions), promote(v.Policy))
}

// replayed returns the turns of the walk; none if they are not all there.
func (c *calibration) replayed() (turns []turn) {
	text, err := os.ReadFile(c.at("replay.json"))
	if err != nil || json.Unmarshal(text, &turns) != nil || len(turns) != len(c.compared())*c.Repetitions {
		return nil
	}
	return turns
}

// comparison is the trained policy against the alternative that earned most in the replays.
type comparison struct {
	policy, best string // best is empty without an alternative
	margin       evaluation.Interval
	repetitions  int
}

// onEngines compares the trained policy, which is the first, with the alternatives.
func onEngines(policies []string, turns []turn) *comparison {
	c := &comparison{policy: policies[0], repetitions: len(turns) / len(policies)}
	c.margin.Mean = math.Inf(1)
	trained := turnReports(policies, turns, 0)
	for i := 1; i < len(policies); i++ {
		if by, se := ahead(trained, turnReports(policies, turns, i)); by < c.margin.Mean {
			half := math.Inf(1) // of the interval
			if c.repetitions > 1 {
				half = se * distuv.StudentsT{Sigma: 1, Nu: float64(c.repetitions - 1)}.Quantile(0.975)
			}
			c.best, c.margin = policies[i], evaluation.Interval{Mean: by, Lo: by - half, Hi: by + half}
		}
	}
	return c
}

// word is Better, Worse or, where the interval holds zero too, Unsettled.
func (c *comparison) word() string {
	if word := (evaluation.Verdict{Margin: c.margin}).Word(); word != evaluation.Level {
		return word
	}
	return evaluation.Unsettled
}

// String returns the comparison in one line.
func (c *comparison) String() string {
	switch {
	case c.best == "":
		return "there was no alternative to compare with"
	case c.repetitions < 2:
		return fmt.Sprintf("%s over the best alternative, %s, by %+.4f in one repetition: %s", c.policy, c.best, c.margin.Mean, c.word())
	}
	return fmt.Sprintf("%s over the best alternative, %s, by %s, paired over %d repetitions: %s", c.policy, c.best, evaluation.Signed(c.margin), c.repetitions, c.word())
}
