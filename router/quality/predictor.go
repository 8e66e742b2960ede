package quality

import (
	"fmt"
	"slices"
	"strings"

	"gearshift/router/fleet"
)

// Predictor is a model bound to a fleet. It is immutable, so it may be shared freely.
type Predictor struct {
	model   *Regression
	table   *fleet.Table
	columns []int // by variant; −1: its task's row holds
	gains   [fleet.MostPredicted]float32
}

// fewExceed is the share of prompts with a gain below [fleet.Prediction.Gains].
const fewExceed = 0.95

// Bind makes a predictor for the fleet. As names the column of each variant, by index; empty
// keeps the number in the task's row. It returns an error if a name is none of the model's,
// if all are empty, or if the fleet has more variants than predictions have room for.
func Bind(m *Regression, t *fleet.Table, as []string) (*Predictor, error) {
	if len(t.Variants) > fleet.MostPredicted {
		return nil, fmt.Errorf("qualities of %d variants cannot be predicted; want %d at most", len(t.Variants), fleet.MostPredicted)
	}
	if len(as) != len(t.Variants) {
		return nil, fmt.Errorf("%d names of scores for %d variants", len(as), len(t.Variants))
	}
	p, names, some := &Predictor{model: m, table: t}, m.Columns(), false
	for v, name := range as {
		column := slices.Index(names, name)
		if column < 0 && name != "" {
			return nil, fmt.Errorf("the predictor has no scores of %q, which those of variant %q are read as; it has %s", name, t.Variants[v].Name, strings.Join(names, ", "))
		}
		p.columns, some = append(p.columns, column), some || column >= 0
	}
	if !some {
		return nil, fmt.Errorf("the predictor has scores of %s, and no variant is read as one of them", strings.Join(names, ", "))
	}
	p.gains = p.drawnGains()
	return p, nil
}

// drawnGains returns the gains of the prompts that the regression keeps predictions of.
func (p *Predictor) drawnGains() [fleet.MostPredicted]float32 {
	n := len(p.model.columns)
	gains := Gains(len(p.model.drawn)/n, len(p.columns), func(i, v int) float32 {
		if p.columns[v] < 0 {
			return 0
		}
		return float32(p.model.drawn[i*n+p.columns[v]]) / 255
	})
	for v, c := range p.columns {
		if c < 0 {
			gains[v] = 0
		}
	}
	return gains
}

// Gains returns, by variant, the gain over the best smaller one that few of the prompts exceed,
// whose number is given. Score is that of a variant's answer to one of them.
func Gains(prompts, variants int, score func(prompt, variant int) float32) (gains [fleet.MostPredicted]float32) {
	if prompts == 0 {
		return gains
	}
	list := make([]float32, prompts)
	best := make([]float32, prompts) // of the smaller variants
	for v := range variants {
		for i := range list {
			x := score(i, v)
			list[i] = x - best[i]
			if v == 0 || x > best[i] {
				best[i] = x
			}
		}
		if v > 0 {
			slices.Sort(list)
			gains[v] = max(0, list[int(fewExceed*float64(prompts-1))])
		}
	}
	return gains
}

// Regression returns the model.
func (p *Predictor) Regression() *Regression { return p.model }

// With returns a predictor by another model with the same columns.
func (p *Predictor) With(m *Regression) (*Predictor, error) {
	as, names := make([]string, len(p.columns)), p.model.Columns()
	for v, c := range p.columns {
		if c >= 0 {
			as[v] = names[c]
		}
	}
	return Bind(m, p.table, as)
}

// Column returns the model's column of a variant, or −1.
func (p *Predictor) Column(variant int) int { return p.columns[variant] }

// Predict writes the expected qualities of answers to a prompt of the task: between its row,
// where the prompt is like none of the fit, and the scores of the model.
func (p *Predictor) Predict(s *Sample, task int, dst *fleet.Prediction) {
	var scores [MostColumns]float64
	sure := p.model.Predict(s, scores[:])
	*dst = fleet.Prediction{Known: true, Sure: float32(sure), Gains: &p.gains}
	for v, c := range p.columns {
		row := p.table.Tasks[task].Quality[v]
		quality, low := row, row
		if c >= 0 && p.table.Answers(task, v) {
			quality = sure*scores[c] + (1-sure)*row
			low = sure*p.model.Low(c, scores[c]) + (1-sure)*min(row, float64(p.model.columns[c].floor))
		}
		dst.Quality[v], dst.Low[v] = float32(quality), float32(low)
	}
}
