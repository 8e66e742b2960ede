package judging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/policies"
	"gearshift/env/evaluation"
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
func (h *HeldOut) Beats() bool { return len(h.Policies) > 0 && h.Margin.Lo > 0 }

// compareHeldOut makes the comparison of a plan's results on the workloads; the
// first policy is the trained one, the others are rules.
func compareHeldOut(results []evaluation.Result, workloads []string, seeds int) (HeldOut, error) {
	h := HeldOut{Seeds: seeds}
	scores := map[string][]float64{} // by policy and seed
	for _, r := range results {
		for _, name := range workloads {
			if r.Workload == name {
				h.add(r, len(workloads), scores)
			}
		}
	}
	if len(h.Policies) < 2 {
		return h, errors.New("cannot compare with rules: there are none")
	}
	var best *HeldRow
	for i := range h.Policies {
		row := &h.Policies[i]
		row.Score = evaluation.Bootstrap(scores[row.Policy])
		if i > 0 && (best == nil || row.Score.Mean > best.Score.Mean) {
			best = row
		}
	}
	h.BestRule = best.Policy
	var err error
	h.Margin, err = evaluation.Paired(scores[h.Policies[0].Policy], scores[best.Policy])
	return h, err
}

// add enters one result.
func (h *HeldOut) add(r evaluation.Result, workloads int, scores map[string][]float64) {
	i := len(h.Policies) - 1
	if i < 0 || h.Policies[i].Policy != r.Policy {
		h.Policies = append(h.Policies, HeldRow{Policy: r.Policy, Utility: map[string]evaluation.Interval{}})
		scores[r.Policy] = make([]float64, len(r.Runs))
		i++
	}
	h.Policies[i].Utility[r.Workload] = r.Utility
	for k, utility := range r.Runs {
		scores[r.Policy][k] += utility / float64(workloads)
	}
}

// write prints the comparison as a table.
func (h *HeldOut) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "POLICY")
	var names []string
	for _, name := range policies.JudgedBy {
		if _, ok := h.Policies[0].Utility[name]; ok {
			names = append(names, name)
			fmt.Fprintf(t, "\t%s", name)
		}
	}
	fmt.Fprintln(t, "\tSCORE (95 %)")
	for _, row := range h.Policies {
		fmt.Fprint(t, row.Policy)
		for _, name := range names {
			fmt.Fprintf(t, "\t%.3f", row.Utility[name].Mean)
		}
		fmt.Fprintf(t, "\t%.4f (%.4f–%.4f)\n", row.Score.Mean, row.Score.Lo, row.Score.Hi)
	}
	return t.Flush()
}

// Admit says whether a policy may go into production: its stored evaluation must
// beat the best rule. If it does not, the table goes to w.
func Admit(entry checkpoints.Entry, w io.Writer) error {
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
	m := s.HeldOut.Margin
	return fmt.Errorf("cannot promote %s: on %d held-out seeds it is %+.4f (%+.4f to %+.4f) beside the rule %s, which is not above it for sure; serve the rule, train longer, or give --force and a --reason",
		entry.Ref(), s.HeldOut.Seeds, m.Mean, m.Lo, m.Hi, s.HeldOut.BestRule)
}
