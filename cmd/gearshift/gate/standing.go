package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/output"
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
	// Objective is what the weights were chosen by, and Values what the same runs were worth
	// by it; nothing of mean utility.
	Objective objective.Objective `json:"objective,omitzero"`
	Values    map[string]float64  `json:"values,omitempty"`
	HeldOut   HeldOut             `json:"held_out"`
}

// HeldOut is a comparison on seeds that neither training nor the choice of its
// weights has seen.
type HeldOut struct {
	Seeds int `json:"seeds"`
	// Objective is what policies are compared by; nothing of mean utility.
	Objective objective.Objective `json:"objective,omitzero"`
	Policies  []HeldRow           `json:"policies"` // the trained one first
	// BestRule has the highest score of the rules.
	BestRule string `json:"best_rule"`
	// Margin is the policy's score less the best rule's, paired by seed.
	Margin evaluation.Interval `json:"margin"`
}

// HeldRow is how one policy did.
type HeldRow struct {
	Policy  string                         `json:"policy"`
	Utility map[string]evaluation.Interval `json:"utility"` // by workload
	// Values are by the objective, by workload; nil where that is mean utility.
	Values map[string]evaluation.Interval `json:"values,omitempty"`
	// Score is the mean, by the objective, over the workloads, each weighing the same.
	Score evaluation.Interval `json:"score"`
}

// compared is, by workload, what policies are compared by.
func (r *HeldRow) compared() map[string]evaluation.Interval {
	if r.Values != nil {
		return r.Values
	}
	return r.Utility
}

// Beats says whether the policy is above the best rule by more than chance.
func (h *HeldOut) Beats() bool {
	return len(h.Policies) > 0 && h.Verdict("").Word() == evaluation.Better
}

// Verdict is the comparison with the best rule, of the policy under its name.
func (h *HeldOut) Verdict(policy string) evaluation.Verdict {
	return evaluation.Verdict{Policy: policy, Rule: h.BestRule, Objective: h.Objective, Margin: h.Margin, Seeds: h.Seeds, Workloads: h.workloads()}
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

// compareHeldOut makes the comparison, by the objective, of a plan's results on the
// workloads; the first policy is the trained one, the others are rules.
func compareHeldOut(results []evaluation.Result, workloads []string, seeds int, o objective.Objective) (HeldOut, error) {
	h := HeldOut{Seeds: seeds, Objective: o}
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
			h.Policies[i].add(&r, o)
		}
	}
	verdict, err := evaluation.Over(scores[0], scores[1:])
	h.BestRule, h.Margin = verdict.Rule, verdict.Margin
	return h, err
}

// add notes how the policy did on a workload.
func (r *HeldRow) add(on *evaluation.Result, o objective.Objective) {
	r.Utility[on.Workload] = on.Utility
	if o.IsZero() {
		return
	}
	if r.Values == nil {
		r.Values = map[string]evaluation.Interval{}
	}
	r.Values[on.Workload] = on.By(o).Value
}

// Rows are the comparison as a table, its header first: what the policies are compared by on
// each workload and in the mean and, if that is not mean utility, that too.
func (h *HeldOut) Rows() [][]string {
	names := h.workloads()
	rows := [][]string{slices.Concat([]string{"POLICY"}, names, []string{"SCORE (95 %)"})}
	if !h.Objective.IsZero() {
		rows[0][len(names)+1] = h.Objective.String() + " (95 %)"
		rows[0] = append(rows[0], "UTILITY")
	}
	for i := range h.Policies {
		rows = append(rows, h.row(&h.Policies[i], names))
	}
	return rows
}

func (h *HeldOut) row(r *HeldRow, names []string) []string {
	cells := []string{r.Policy}
	var utility float64
	for _, name := range names {
		cells = append(cells, fmt.Sprintf("%.3f", r.compared()[name].Mean))
		utility += r.Utility[name].Mean / float64(len(names))
	}
	cells = append(cells, fmt.Sprintf("%.4f (%.4f–%.4f)", r.Score.Mean, r.Score.Lo, r.Score.Hi))
	if !h.Objective.IsZero() {
		cells = append(cells, fmt.Sprintf("%.4f", utility))
	}
	return cells
}

// write prints the comparison as a table.
func (h *HeldOut) write(w io.Writer) error {
	var b strings.Builder
	output.Fitted(&b, h.Rows(), 0)
	_, err := io.WriteString(w, b.String())
	return err
}

// Stored returns the comparison that a stored policy carries, which decides promotion;
// false if it has none that this version can read.
func Stored(entry checkpoints.Entry) (evaluation.Verdict, bool) {
	s, err := stands(entry)
	if err != nil {
		return evaluation.Verdict{}, false
	}
	return s.HeldOut.Verdict(entry.Ref().String()), true
}

var errNotCompared = errors.New("it has no stored comparison with rules; train it again with this version")

// stands reads the evaluation that a stored policy carries, which has a comparison with rules.
func stands(entry checkpoints.Entry) (s Standing, err error) {
	if len(entry.Meta.Evaluation) > 0 {
		if err := json.Unmarshal(entry.Meta.Evaluation, &s); err != nil { // another version's
			return s, fmt.Errorf("its evaluation cannot be read: %w; train it again with this version", err)
		}
	}
	if len(s.HeldOut.Policies) == 0 {
		return s, errNotCompared
	}
	return s, nil
}

// Admit says whether a policy may go into production: its stored evaluation must
// beat the best rule. If it does not, the table goes to w, and the error offers the rule,
// with the command that promotes it.
func Admit(entry checkpoints.Entry, promote Promotion, w io.Writer) error {
	s, err := stands(entry)
	if err != nil {
		return fmt.Errorf("cannot promote %s: %w, or give --force and a --reason", entry.Ref(), err)
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

// WriteVerdict writes a verdict in lines that fit.
func WriteVerdict(b *strings.Builder, v evaluation.Verdict) {
	fmt.Fprintf(b, "%s on %s:\n", output.Fit(v.Policy, output.Width/2), output.Fit(evaluation.Together(v.Workloads), output.Width/2-5))
	line := v.String()
	if utf8.RuneCountInString(line) > output.Width-2 {
		line = strings.Replace(line, ", by ", ",\n  by ", 1)
	}
	fmt.Fprintf(b, "  %s\n", line)
}
