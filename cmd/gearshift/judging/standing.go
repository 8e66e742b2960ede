package judging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/policies"
	"gearshift/env/evaluation"
	"gearshift/env/objective"
)

// Standing is the evaluation that a checkpoint carries: how its policy did on
// validation seeds, by which its weights were chosen, and on held-out seeds
// beside the scenario's rules.
type Standing struct {
	Seeds   int                `json:"validation_seeds"`
	Utility map[string]float64 `json:"utility"` // by workload, on validation seeds
	HeldOut HeldOut            `json:"held_out"`
}

// HeldOut is a comparison on seeds that neither training nor the choice of its
// weights has seen.
type HeldOut struct {
	Seeds    int       `json:"seeds"`
	Policies []HeldRow `json:"policies"` // the trained one first
	// BestRule has the highest score of the rules.
	BestRule string `json:"best_rule"`
	// Margin is the policy's score less the best rule's, paired by seed.
	Margin evaluation.Interval `json:"margin"`
}

type HeldRow struct {
	Policy  string                         `json:"policy"`
	Utility map[string]evaluation.Interval `json:"utility"` // by workload
	// Score is the mean over the workloads, each weighing the same.
	Score evaluation.Interval `json:"score"`
}

// Beats says whether the policy is above the best rule by more than chance.
func (h *HeldOut) Beats() bool {
	return len(h.Policies) > 0 && h.Verdict("").Word() == evaluation.Better
}

// Verdict is the comparison with the best rule, of the policy under its name.
func (h *HeldOut) Verdict(policy string) evaluation.Verdict {
	return evaluation.Verdict{Policy: policy, Rule: h.BestRule, Margin: h.Margin, Seeds: h.Seeds, Workloads: h.workloads()}
}

// workloads are those of [policies.JudgedBy] that the comparison was made on.
func (h *HeldOut) workloads() (names []string) {
	for _, name := range policies.JudgedBy {
		if len(h.Policies) > 0 {
			if _, ok := h.Policies[0].Utility[name]; ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// compareHeldOut makes the comparison of a plan's results on the workloads; the
// first policy is the trained one, the others are rules.
func compareHeldOut(results []evaluation.Result, workloads []string, seeds int, o objective.Objective) (HeldOut, error) {
	h := HeldOut{Seeds: seeds}
	scores := evaluation.Scores(results, workloads, o)
	if len(scores) < 2 {
		return h, errors.New("cannot compare with rules: there are none")
	}
	for _, s := range scores {
		h.Policies = append(h.Policies, HeldRow{
			Policy: s.Policy, Utility: map[string]evaluation.Interval{}, Score: evaluation.Bootstrap(s.Runs),
		})
	}
	for _, r := range results {
		if i := slices.IndexFunc(h.Policies, func(row HeldRow) bool { return row.Policy == r.Policy }); i >= 0 && slices.Contains(workloads, r.Workload) {
			h.Policies[i].Utility[r.Workload] = r.Utility
		}
	}
	verdict, err := evaluation.Over(scores[0], scores[1:])
	h.BestRule, h.Margin = verdict.Rule, verdict.Margin
	return h, err
}

// Rows are the comparison as a table, its header first.
func (h *HeldOut) Rows() [][]string {
	names := h.workloads()
	rows := [][]string{slices.Concat([]string{"POLICY"}, names, []string{"SCORE (95 %)"})}
	for _, row := range h.Policies {
		cells := []string{row.Policy}
		for _, name := range names {
			cells = append(cells, fmt.Sprintf("%.3f", row.Utility[name].Mean))
		}
		rows = append(rows, append(cells, fmt.Sprintf("%.4f (%.4f–%.4f)", row.Score.Mean, row.Score.Lo, row.Score.Hi)))
	}
	return rows
}

// write prints the comparison as a table.
func (h *HeldOut) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range h.Rows() {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// Stored returns the comparison that a stored policy carries, which decides promotion;
// false if it has none.
func Stored(entry checkpoints.Entry) (evaluation.Verdict, bool) {
	var s Standing
	if err := json.Unmarshal(entry.Meta.Evaluation, &s); err != nil || len(s.HeldOut.Policies) == 0 {
		return evaluation.Verdict{}, false
	}
	return s.HeldOut.Verdict(entry.Ref().String()), true
}

// Admit says whether a policy may go into production: its stored evaluation must
// beat the best rule. If it does not, the table goes to w, and the error offers the rule,
// with the command that promotes it.
func Admit(entry checkpoints.Entry, promote Promotion, w io.Writer) error {
	var s Standing
	if err := json.Unmarshal(entry.Meta.Evaluation, &s); err != nil || len(s.HeldOut.Policies) == 0 {
		return fmt.Errorf("cannot promote %s: it has no stored comparison with rules; train it again with this version, or give --force and a --reason", entry.Ref())
	}
	if s.HeldOut.Beats() {
		return nil
	}
	if err := s.HeldOut.write(w); err != nil {
		return err
	}
	v := s.HeldOut.Verdict(entry.Ref().String())
	return fmt.Errorf("cannot promote %s: on %d held-out seeds of %s it is, %s; %s, train longer, or give --force and a --reason",
		entry.Ref(), v.Seeds, evaluation.Together(v.Workloads), v, Offer(v, promote))
}

// Bound refuses a policy whose evaluation is of another.
func Bound(c *checkpoints.Checkpoint, entry checkpoints.Entry) error {
	if err := c.CheckEvaluation(); err != nil {
		return fmt.Errorf("cannot promote %s: %w; import or train it again", entry.Ref(), err)
	}
	return nil
}

// Promotion is the command that promotes what the reference names.
type Promotion func(ref string) (command string)

// PromotionIn is the command that promotes in a store.
func PromotionIn(store string) Promotion {
	return func(ref string) string { return fmt.Sprintf("gearshift policy promote %s --store %s", ref, store) }
}

// Choice is what to promote after a verdict: the policy if it is better than the best rule,
// else the rule.
func Choice(v evaluation.Verdict) string {
	if v.Word() == evaluation.Better {
		return v.Policy
	}
	return v.Rule
}

// Offer is what to promote after a verdict, with the command: the policy if it is better
// than the best rule, else the rule.
func Offer(v evaluation.Verdict, promote Promotion) string {
	if v.Word() == evaluation.Better {
		return "promote it: " + promote(v.Policy)
	}
	offer := "promote the rule: " + promote(v.Rule)
	if strings.HasPrefix(v.Rule, "static:") {
		offer += " (it was evaluated alone, with all of the hosts' memory)"
	}
	return offer
}

// Conclusion is a verdict and what to do next, in a line each.
func Conclusion(v evaluation.Verdict, promote Promotion) string {
	return Line(v) + "\n" + Next(v, promote)
}

// Next is a line that says what a verdict means, and what to do next.
func Next(v evaluation.Verdict, promote Promotion) string {
	relation := map[string]string{
		evaluation.Better: "better than", evaluation.Level: "level with", evaluation.Worse: "worse than",
	}[v.Word()]
	return fmt.Sprintf("%s the best rule; %s\n", relation, Offer(v, promote))
}

// Line is a verdict in one line, with the policy and the workloads.
func Line(v evaluation.Verdict) string {
	return fmt.Sprintf("%s on %s: %s", v.Policy, evaluation.Together(v.Workloads), v)
}
