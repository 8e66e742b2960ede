package evalcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/fleet"
)

// writeShort renders an evaluation for people, in [output.Width] columns: the whole
// workloads alone, and the verdicts. Names that do not fit end in "…"; --wide has all of
// them.
func writeShort(w io.Writer, r *evaluation.Report) error {
	var b strings.Builder
	if r.Tuning != nil {
		writeSearch(&b, r.Tuning)
		b.WriteByte('\n')
	}
	var sizes []string
	for _, v := range r.Variants {
		sizes = append(sizes, v.Name)
	}
	rows := [][]string{{"WORKLOAD", "POLICY", "UTILITY (95 %)"}}
	for _, o := range r.Objectives() {
		rows[0] = append(rows[0], o.String())
	}
	if r.AsServed() {
		rows[0] = append(rows[0], "REFUSED")
	}
	rows[0] = append(rows[0], "IN TIME", strings.Join(sizes, "/"))
	for _, x := range r.ByWorkload() {
		if slices.Contains(r.Headlines, x.Workload) {
			rows = append(rows, shortRow(x, r))
		}
	}
	output.Fitted(&b, rows, 1)
	if r.Quality != "" {
		fmt.Fprintf(&b, "Quality predicted by: %s.\n", r.Quality)
	}
	writeActed(&b, r)
	for _, v := range r.Verdicts {
		b.WriteByte('\n')
		policies.WriteVerdict(&b, v)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeActed says what the fleet's controllers did, where it has any, and what became of streams.
func writeActed(b *strings.Builder, r *evaluation.Report) {
	for _, x := range r.ByWorkload() {
		if x.Served != nil && x.Served.Acted() != "" && slices.Contains(r.Headlines, x.Workload) {
			fmt.Fprintf(b, "In a run of %s under %s: %s.\n", x.Workload, x.Policy, x.Served.Acted())
		}
		if x.Streams != nil && slices.Contains(r.Headlines, x.Workload) {
			fmt.Fprintf(b, "Streams in a run of %s under %s: %v.\n", x.Workload, x.Policy, x.Streams)
		}
	}
}

// writeStored says for each policy that is stored with a comparison what promotion makes of
// that, and the comparison itself where it is not the one just made: of other workloads,
// other seeds or another scenario.
func writeStored(w io.Writer, verdicts []evaluation.Verdict, store *checkpoints.Store) error {
	var b strings.Builder
	for _, v := range verdicts {
		ref, err := checkpoints.ParseRef(v.Policy)
		if err != nil { // a clairvoyant
			continue
		}
		entry, err := store.Lookup(ref)
		if err != nil {
			continue
		}
		stored, ok := policies.StoredVerdict(entry)
		if !ok {
			continue
		}
		if stored.Margin != v.Margin || stored.Rule != v.Rule || stored.Objective != v.Objective {
			b.WriteString("gearshift policy promote uses the stored comparison: ")
			policies.WriteVerdict(&b, stored)
		}
		b.WriteString(policies.NextStep(stored, policies.PromotionIn(store.Path)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func shortRow(x evaluation.Result, r *evaluation.Report) []string {
	row := []string{
		output.FitEnd(x.Workload, output.Width/4), x.Policy, fmt.Sprintf("%.3f (%.3f–%.3f)", x.Utility.Mean, x.Utility.Lo, x.Utility.Hi),
	}
	for _, o := range r.Objectives() {
		row = append(row, fmt.Sprintf("%.3f", x.By(o).Value.Mean))
	}
	switch {
	case x.Served != nil:
		row = append(row, fmt.Sprintf("%.1f%%", 100*x.Served.RefusedShare()))
	case r.AsServed(): // a size alone, which nothing controls
		row = append(row, "–")
	}
	var share []string
	for _, v := range r.Variants {
		share = append(share, fmt.Sprintf("%.0f", 100*x.Share[v.Name]))
	}
	return append(row, fmt.Sprintf("%.1f%%", 100*x.DeadlineMet.Mean), strings.Join(share, "/")+" %")
}

// writeSearch shows what a search found, the best first.
func writeSearch(b *strings.Builder, r *evaluation.TuningReport) {
	b.WriteString(r.Title())
	rows := [][]string{{"RULE", "SCORE", "POINTS"}}
	for _, best := range evaluation.BestFirst(r.Best) {
		rows = append(rows, []string{best.Policy, fmt.Sprintf("%.4f", best.Score), fmt.Sprint(best.Trials)})
	}
	output.Fitted(b, rows, 0)
	key := "evaluation.rules"
	if !r.Objective.IsZero() {
		key = fmt.Sprintf("evaluation.rules_for, key %q,", r.Objective)
	}
	fmt.Fprintf(b, "They are in the order that %s wants: the best first.\n", key)
}

// judgedBy returns the tasks by which answers are judged instead of s's own: those of the scenario
// ref, which must have tasks and sizes of the same names. It is nil if ref is empty.
func judgedBy(s *scenario.Scenario, ref string) ([]fleet.Task, error) {
	if ref == "" {
		return nil, nil
	}
	other, err := scenario.Load(ref)
	if err != nil {
		return nil, err
	}
	t, own := other.Table(), s.Table()
	sameTask := func(a, b fleet.Task) bool { return a.Name == b.Name }
	if !slices.EqualFunc(t.Tasks, own.Tasks, sameTask) || !slices.EqualFunc(t.Variants, own.Variants, func(a, b fleet.Variant) bool { return a.Name == b.Name }) {
		return nil, fmt.Errorf("--judged-by %s: its tasks and variants are not those of %s; want the same names in the same order", ref, s.Name)
	}
	return t.Tasks, nil
}

// qualityFlag adds --quality.
func qualityFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "quality", "", "`REF` of what predicts the quality of answers to prompts: none, fit, NAME[@VERSION] of the store, or oracle, which knows the scores (default: the scenario's quality.predictor)")
}
