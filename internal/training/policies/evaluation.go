package policies

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/internal/output"
)

// Evaluation is what a checkpoint records of its policy: how it did on validation seeds, by
// which its weights were chosen, and how it compares with the scenario's rules on held-out seeds.
type Evaluation struct {
	Seeds   int                `json:"validation_seeds"`
	Utility map[string]float64 `json:"utility"` // by workload, on validation seeds
	// Objective is what the weights were chosen by, and Values are the same runs' values by it.
	// Both are empty for mean utility.
	Objective evaluation.Objective `json:"objective,omitzero"`
	Values    map[string]float64   `json:"values,omitempty"`
	HeldOut   HeldOut              `json:"held_out"`
}

// HeldOut is a comparison on seeds that neither training nor the choice of its
// weights has seen.
type HeldOut struct {
	Seeds int `json:"seeds"`
	// Recorded names the recorded requests that it is on, whose blocks the seeds are; nil if it is
	// on [JudgedBy].
	Recorded []string `json:"recorded,omitempty"`
	// Objective is what policies are compared by. It is zero for mean utility.
	Objective evaluation.Objective `json:"objective,omitzero"`
	Policies  []HeldRow            `json:"policies"` // the trained one first
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

// compared returns the values by which policies are compared, by workload.
func (r *HeldRow) compared() map[string]evaluation.Interval {
	if r.Values != nil {
		return r.Values
	}
	return r.Utility
}

// Better reports whether the policy is above the best rule by more than chance.
func (h *HeldOut) Better() bool {
	return len(h.Policies) > 0 && h.Verdict("").Word() == evaluation.Better
}

// Verdict returns the comparison of the policy, under its name, with the best rule.
func (h *HeldOut) Verdict(policy string) evaluation.Verdict {
	return evaluation.Verdict{Policy: policy, Rule: h.BestRule, Objective: h.Objective, Margin: h.Margin, Seeds: h.Seeds, Blocks: h.Recorded != nil, Workloads: h.workloads()}
}

// workloads returns what the comparison was made on: recorded requests, or those of
// [policies.JudgedBy] that it has.
func (h *HeldOut) workloads() (names []string) {
	if h.Recorded != nil {
		return h.Recorded
	}
	for _, name := range JudgedBy {
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
func compareHeldOut(results []evaluation.Result, workloads []string, seeds int, o evaluation.Objective) (HeldOut, error) {
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

// add records how the policy did on a workload.
func (r *HeldRow) add(on *evaluation.Result, o evaluation.Objective) {
	r.Utility[on.Workload] = on.Utility
	if o.IsZero() {
		return
	}
	if r.Values == nil {
		r.Values = map[string]evaluation.Interval{}
	}
	r.Values[on.Workload] = on.By(o).Value
}

// Rows returns the comparison as a table, its header first. It has the values by which policies
// are compared, on each workload and in the mean, and the mean utility if that is another value.
func (h *HeldOut) Rows() [][]string {
	names := h.workloads()
	heads := names
	if h.Recorded != nil {
		heads = []string{"HELD OUT"} // one, of a long name
	}
	rows := [][]string{slices.Concat([]string{"POLICY"}, heads, []string{"SCORE (95 %)"})}
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
