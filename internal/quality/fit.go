package quality

import (
	"fmt"
	"slices"

	"gearshift/internal/quality/labels"
	"gearshift/router/quality"
	"gearshift/workloads/prompts"
)

// Fitted is a predictor, and how well ones like it predicted prompts that they had not seen.
type Fitted struct {
	Regression *quality.Regression
	Report     *Report
}

// Fit fits a predictor to the labels, whose words it hashes under the key, and judges it out
// of fold: each prompt by a predictor that was fitted to other prompts. The sizes are in the
// order of the labels' columns if ordered is set, and otherwise in that of their mean scores.
func Fit(set *labels.Set, key, seed uint64, ordered bool) (*Fitted, error) {
	m, held, err := quality.Fit(Examples(set, key), set.Columns, quality.Options{Key: key, Seed: seed})
	if err != nil {
		return nil, fmt.Errorf("cannot fit: %w", err)
	}
	p := predicted(set, held)
	if !ordered {
		p.Sort()
	}
	return &Fitted{m, Judge(p, seed)}, nil
}

// Examples returns the prompts as a fit takes them.
func Examples(set *labels.Set, key uint64) []quality.Example {
	var f quality.Features
	list := make([]quality.Example, len(set.Prompts))
	for i := range set.Prompts {
		p := promptOf(&set.Prompts[i])
		f.Read(&p, key)
		list[i] = quality.Example{Sample: f.Sample.Clone(), Scores: set.Prompts[i].Scores}
	}
	return list
}

// promptOf returns the prompt as a request of one message.
func promptOf(p *prompts.Prompt) quality.Prompt {
	return quality.Prompt{Parts: [][]byte{[]byte(p.Text)}, Task: p.Task, Turns: 1}
}

// predicted joins scores and predictions by the same columns.
func predicted(set *labels.Set, held [][]float64) *Predicted {
	p := &Predicted{Columns: set.Columns, Held: held}
	for i := range set.Prompts {
		p.Tasks = append(p.Tasks, set.Prompts[i].Task)
		p.Scores = append(p.Scores, set.Prompts[i].Scores)
	}
	return p
}

// Prediction holds the predicted scores of one prompt, by model.
type Prediction struct {
	Scores map[string]float64 `json:"scores"`
	Sure   float64            `json:"sure"`
}

// Predict predicts the scores of each prompt, in their order. The function returns an error
// to end early.
func Predict(m *quality.Regression, set *labels.Set, each func(Prediction) error) error {
	columns := m.Columns()
	return predict(m, set, func(_ int, scores []float64, sure float64) error {
		p := Prediction{Scores: map[string]float64{}, Sure: sure}
		for c, name := range columns {
			p.Scores[name] = scores[c]
		}
		return each(p)
	})
}

// predict calls the function with each prompt's predicted scores, which it may keep.
func predict(m *quality.Regression, set *labels.Set, each func(i int, scores []float64, sure float64) error) error {
	var f quality.Features
	columns := len(m.Columns())
	for i := range set.Prompts {
		p := promptOf(&set.Prompts[i])
		f.Read(&p, m.Key())
		scores := make([]float64, columns)
		if err := each(i, scores, m.Predict(&f.Sample, scores)); err != nil {
			return err
		}
	}
	return nil
}

// ordered returns the columns of a model that the labels have too, in the report's order, and
// their places among the model's.
func (r *Report) ordered(m *quality.Regression, names []string) (columns []string, places []int) {
	all := m.Columns()
	for i := range r.Columns {
		name := r.Columns[i].Name
		if at := slices.Index(all, name); at >= 0 && slices.Contains(names, name) {
			columns, places = append(columns, name), append(places, at)
		}
	}
	return columns, places
}
