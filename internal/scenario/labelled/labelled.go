// Package labelled prepares the labelled prompts of a scenario's workload for simulations: one half
// of them is played, and predictors may be fitted to the other.
package labelled

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/workloads"
	"gearshift/workloads/prompts"
)

// Prompts are those of a workload, with the scores of the variants. They may be shared by goroutines.
type Prompts struct {
	Fitted, Played *prompts.Set // by variant

	mu     sync.Mutex          // protects what follows
	stored *quality.Regression // nil without one
	fitted *quality.Regression // nil until it is asked for
	read   []quality.Sample    // of those that are played, under key
	key    uint64
}

// New prepares a set for variants with these names in its scores. Prompts without a score of each are
// left out.
func New(set *prompts.Set, columns []string) *Prompts {
	p := new(Prompts)
	p.Fitted, p.Played = set.Of(columns).Halves()
	return p
}

// Use sets the stored predictor, which may be nil.
func (p *Prompts) Use(m *quality.Regression) {
	p.mu.Lock()
	p.stored = m
	p.mu.Unlock()
}

// Predictor names what predicts the qualities of answers in a simulation.
type Predictor uint8

// The predictors.
const (
	None   Predictor = iota
	Stored           // that of [Prompts.Use]
	Fit              // fitted to [Prompts.Fitted]
	Oracle           // knows the scores of those that are played
)

// Play returns the prompts of a simulation of the fleet, with what is predicted for them.
func (p *Prompts) Play(t *fleet.Table, by Predictor) (*env.Prompts, error) {
	out := &env.Prompts{Scores: make([][]float32, len(p.Played.Prompts))}
	for i := range out.Scores {
		out.Scores[i] = p.Played.Prompts[i].Scores
	}
	switch by {
	case None:
		return out, nil
	case Oracle:
		out.Predicted = known(out.Scores, len(t.Variants), len(t.Tasks))
		return out, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := p.regression(by)
	if err != nil {
		return nil, err
	}
	predictor, err := quality.Bind(m, t, p.Played.Columns)
	if err != nil {
		return nil, err
	}
	samples := p.samples(m.Key())
	out.Predicted = make([][]fleet.Prediction, len(t.Tasks))
	for task := range out.Predicted {
		out.Predicted[task] = make([]fleet.Prediction, len(samples))
		for i := range samples {
			predictor.Predict(&samples[i], task, &out.Predicted[task][i])
		}
	}
	return out, nil
}

// FittedPredictor returns the predictor that is fitted to [Prompts.Fitted].
func (p *Prompts) FittedPredictor() (*quality.Regression, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.regression(Fit)
}

// regression returns the model of a predictor.
func (p *Prompts) regression(by Predictor) (*quality.Regression, error) {
	if by == Stored && p.stored == nil {
		return nil, errors.New("the predictor has not been read from the store")
	} else if by == Stored {
		return p.stored, nil
	}
	if p.fitted != nil {
		return p.fitted, nil
	}
	seed := workloads.Seed(workloads.Training, 0)
	m, _, err := quality.Fit(Examples(p.Fitted, seed), unique(p.Fitted.Columns), quality.Options{Key: seed, Seed: seed})
	if err != nil {
		return nil, fmt.Errorf("cannot fit a predictor to the prompts of %s: %w", p.Fitted.Name, err)
	}
	p.fitted = m
	return m, nil
}

// samples returns what a predictor with the key sees of the prompts that are played.
func (p *Prompts) samples(key uint64) []quality.Sample {
	if p.read == nil || p.key != key {
		p.key, p.read = key, make([]quality.Sample, len(p.Played.Prompts))
		var f quality.Features
		for i := range p.read {
			p.read[i] = sample(&f, &p.Played.Prompts[i], key)
		}
	}
	return p.read
}

// Examples returns the prompts as a predictor is fitted to them, by the columns that are not there
// twice.
func Examples(set *prompts.Set, key uint64) []quality.Example {
	names := unique(set.Columns)
	examples := make([]quality.Example, len(set.Prompts))
	var f quality.Features
	for i := range examples {
		p := &set.Prompts[i]
		examples[i] = quality.Example{Sample: sample(&f, p, key), Scores: make([]float32, len(names))}
		for c, name := range names {
			examples[i].Scores[c] = p.Scores[slices.Index(set.Columns, name)]
		}
	}
	return examples
}

func sample(f *quality.Features, p *prompts.Prompt, key uint64) quality.Sample {
	f.Read(&quality.Prompt{Parts: [][]byte{[]byte(p.Text)}, Task: p.Task, Turns: 1}, key)
	return f.Sample.Clone()
}

// known returns predictions that are the scores themselves.
func known(scores [][]float32, variants, tasks int) [][]fleet.Prediction {
	gains := quality.Gains(len(scores), variants, func(i, v int) float32 { return scores[i][v] })
	list := make([]fleet.Prediction, len(scores))
	for i, row := range scores {
		list[i] = fleet.Prediction{Known: true, Sure: 1, Gains: &gains}
		copy(list[i].Quality[:], row)
		copy(list[i].Low[:], row)
	}
	return slices.Repeat([][]fleet.Prediction{list}, tasks)
}

// unique returns the names without repetitions, in order.
func unique(names []string) (list []string) {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
