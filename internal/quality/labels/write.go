package labels

import (
	"encoding/json"
	"io"
	"math/rand/v2"
)

// Draw leaves count of the prompts, drawn at random by the seed, after as many as skip says. Of
// one seed, those that are skipped and those that are left differ.
func (s *Set) Draw(skip, count int, seed uint64) {
	order := rand.New(rand.NewPCG(seed, 0x64726177)).Perm(len(s.Prompts))
	order = order[min(skip, len(order)):]
	order = order[:min(count, len(order))]
	all := s.Prompts
	s.Prompts = nil
	for _, i := range order {
		s.Prompts = append(s.Prompts, all[i])
	}
}

// Write writes the prompts as JSON lines.
func (s *Set) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for i := range s.Prompts {
		p := &s.Prompts[i]
		line := struct {
			Prompt string             `json:"prompt"`
			Task   string             `json:"task,omitempty"`
			Group  string             `json:"group,omitempty"`
			Scores map[string]float32 `json:"scores"`
		}{p.Text, p.Task, p.Group, map[string]float32{}}
		for c, y := range p.Scores {
			if y == y {
				line.Scores[s.Columns[c]] = y
			}
		}
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
