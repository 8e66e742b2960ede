// Package prompts holds labelled prompts: the texts that requests of a simulated workload carry,
// and what the answers of several models to each were worth. One set is packed into the program;
// README.md says where it comes from.
package prompts

import (
	"hash/fnv"
	"slices"

	"gearshift/internal/splitmix"
)

// Set is labelled prompts. It is read-only.
type Set struct {
	Name    string
	Columns []string // names of models, from the smallest to the largest
	Prompts []Prompt
}

// Prompt is one of them.
type Prompt struct {
	Text  string
	Task  string // by name; empty where it may be of any
	Group string // of prompts that are alike; empty where that is not known
	// Scores are by column, from 0 to 1; NaN where there is none.
	Scores []float32
}

// Played reports whether the prompt is of the half that simulations play. Predictors are fitted
// to the others. A hash of the text decides, so that it is the same in every file.
func (p *Prompt) Played() bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.Text))
	return splitmix.Next(h.Sum64())>>63 == 1
}

// Halves returns the prompts that predictors may be fitted to, and those that are played.
func (s *Set) Halves() (fitted, played *Set) {
	fitted, played = &Set{Name: s.Name, Columns: s.Columns}, &Set{Name: s.Name, Columns: s.Columns}
	for _, p := range s.Prompts {
		half := fitted
		if p.Played() {
			half = played
		}
		half.Prompts = append(half.Prompts, p)
	}
	return fitted, played
}

// Of returns the set with these columns alone, in their order. Prompts that lack a score of one
// are left out.
func (s *Set) Of(columns []string) *Set {
	out := &Set{Name: s.Name, Columns: columns}
	places := make([]int, len(columns))
	for i, name := range columns {
		if places[i] = slices.Index(s.Columns, name); places[i] < 0 {
			return out
		}
	}
	for _, p := range s.Prompts {
		all, whole := p.Scores, true
		p.Scores = make([]float32, len(places))
		for i, c := range places {
			p.Scores[i] = all[c]
			whole = whole && all[c] == all[c]
		}
		if whole {
			out.Prompts = append(out.Prompts, p)
		}
	}
	return out
}

// Means returns the mean score of each column; a score that is not known does not count.
func (s *Set) Means() []float64 {
	means := make([]float64, len(s.Columns))
	for c := range means {
		var n float64
		for i := range s.Prompts {
			if x := float64(s.Prompts[i].Scores[c]); x == x {
				means[c], n = means[c]+x, n+1
			}
		}
		means[c] /= max(1, n)
	}
	return means
}
