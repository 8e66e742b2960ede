// Package quality fits predictors of quality to labelled prompts, judges them on prompts that
// they have not seen, and stores them. Package labels, below it, reads the files.
package quality

import (
	"cmp"
	"fmt"
	"slices"

	"gearshift/env/evaluation"
)

// Predicted is scores of prompts, and what was predicted for them before they were seen.
type Predicted struct {
	Columns []string    // in the order of their sizes, or see [Predicted.Sort]
	Tasks   []string    // by prompt
	Scores  [][]float32 // by prompt and column, NaN where there is none
	Held    [][]float64 // predictions by prompt and column
}

// mean returns the mean score of a column.
func (p *Predicted) mean(at int) float64 {
	var sum, n float64
	for _, row := range p.Scores {
		if y := float64(row[at]); y == y {
			sum, n = sum+y, n+1
		}
	}
	return sum / max(1, n)
}

// Sort orders the columns by their mean scores, the lowest first.
func (p *Predicted) Sort() {
	means := make([]float64, len(p.Columns))
	by := make([]int, len(p.Columns))
	for c := range by {
		by[c], means[c] = c, p.mean(c)
	}
	slices.SortStableFunc(by, func(a, b int) int { return cmp.Compare(means[a], means[b]) })
	*p = *p.choose(by)
}

// choose returns the columns at the places, in their order.
func (p *Predicted) choose(places []int) *Predicted {
	out := &Predicted{Tasks: p.Tasks}
	for _, c := range places {
		out.Columns = append(out.Columns, p.Columns[c])
	}
	for i := range p.Scores {
		out.Scores, out.Held = append(out.Scores, pick(p.Scores[i], places)), append(out.Held, pick(p.Held[i], places))
	}
	return out
}

func pick[T any](row []T, places []int) []T {
	out := make([]T, len(places))
	for i, c := range places {
		out[i] = row[c]
	}
	return out
}

// Report measures a predictor on prompts that it has not seen.
type Report struct {
	Prompts int      `json:"prompts"`
	Tasks   int      `json:"tasks"` // that the prompts are of
	Columns []Column `json:"columns"`
	// Pairs compares each column with each larger one.
	Pairs []Pair `json:"pairs"`
}

// Judge measures predictions of which the seed draws the resamples.
func Judge(p *Predicted, seed uint64) *Report {
	tasks := map[string]bool{}
	for _, t := range p.Tasks {
		tasks[t] = true
	}
	return &Report{Prompts: len(p.Scores), Tasks: len(tasks), Columns: columns(p), Pairs: pairs(p, seed)}
}

// Main returns the pair by which the predictor is judged: the smallest model and the one with
// the highest mean score of the others. It is nil where there is one model.
func (r *Report) Main() *Pair {
	if len(r.Columns) < 2 {
		return nil
	}
	best := 1
	for c := range r.Columns[2:] {
		if r.Columns[c+2].Mean > r.Columns[best].Mean {
			best = c + 2
		}
	}
	return r.Pair(r.Columns[0].Name, r.Columns[best].Name)
}

// Pair returns the comparison of two models, or nil.
func (r *Report) Pair(small, large string) *Pair {
	i := slices.IndexFunc(r.Pairs, func(p Pair) bool { return p.Small == small && p.Large == large })
	if i < 0 {
		return nil
	}
	return &r.Pairs[i]
}

// Column returns that of the name, or nil.
func (r *Report) Column(name string) *Column {
	i := slices.IndexFunc(r.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Columns[i]
}

// Enough reports whether the predictor was fitted to enough labels, by the main pair.
func (r *Report) Enough() bool {
	main := r.Main()
	return main != nil && main.Enough
}

// Verdict says in a line what the main pair shows.
func (r *Report) Verdict() string {
	main := r.Main()
	if main == nil {
		return "one model alone: there is nothing to choose"
	}
	over := "random"
	if main.OverTask != nil {
		over = "the mean of the task"
	}
	text := fmt.Sprintf("%s or %s by prompt: %s over %s, in the mean over all shares", main.Small, main.Large, evaluation.Signed(main.bar()), over)
	switch {
	case main.Prompts == 0:
		return fmt.Sprintf("no prompt has scores of both %s and %s: there is nothing to compare", main.Small, main.Large)
	case main.Oracle <= 0:
		return fmt.Sprintf("the scores of %s and %s differ by the same on every prompt: there is nothing to choose", main.Small, main.Large)
	case main.Enough:
		return text + ": enough labels"
	case main.bar().Mean > 0:
		return fmt.Sprintf("%s: not enough: %d more labels", text, main.More)
	}
	return fmt.Sprintf("%s: not enough: %d more labels at the least, if the words of these prompts say anything", text, main.More)
}

// Summary returns the report without the curves of all pairs but the main one, to be stored.
func (r *Report) Summary() *Report {
	out := *r
	out.Pairs = slices.Clone(r.Pairs)
	main := r.Main()
	for i := range out.Pairs {
		if main == nil || out.Pairs[i].Small != main.Small || out.Pairs[i].Large != main.Large {
			out.Pairs[i].Curve = nil
		}
	}
	return &out
}
