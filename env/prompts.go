package env

import (
	"fmt"

	"gearshift/internal/faults"
	"gearshift/router/fleet"
)

// Prompts are the labelled prompts that requests may carry; see [workloads.Arrival.Prompt]. It
// is read-only.
type Prompts struct {
	// Scores value the variants' answers in time, by prompt and variant: a
	// simulation values answers by them, in place of the task's row. No decision sees them.
	Scores [][]float32
	// Predicted lists the predictions that decisions see, by task and prompt. Nil predicts nothing.
	Predicted [][]fleet.Prediction
}

// Quality returns what the variant's answer to the request is worth in time: the score of its
// prompt or, if it carries none, the number in the task's row.
func (p *Prompts) Quality(t *fleet.Task, r *fleet.Request, variant int) float64 {
	if p == nil || r.Prompt == 0 {
		return t.Quality[variant]
	}
	return float64(p.Scores[r.Prompt-1][variant])
}

// put gives the request the prompt with that number, and what is predicted for it.
func (p *Prompts) put(r *fleet.Request, number int32) {
	if p == nil || number == 0 {
		return
	}
	r.Prompt = number
	if p.Predicted != nil {
		r.Predicted = p.Predicted[r.Task][number-1]
	}
}

// validate adds the faults of the prompts of a fleet.
func (p *Prompts) validate(t *fleet.Table, found *faults.List) {
	if p == nil {
		return
	}
	n := len(p.Scores)
	for i, row := range p.Scores {
		if len(row) != len(t.Variants) {
			found.Add(fmt.Errorf("prompt %d has %d scores for %d variants", i, len(row), len(t.Variants)))
			return
		}
	}
	if p.Predicted == nil {
		return
	}
	found.If(len(p.Predicted) != len(t.Tasks), "prompts are predicted for %d of %d tasks", len(p.Predicted), len(t.Tasks))
	for task, list := range p.Predicted {
		found.If(len(list) != n, "%d prompts are predicted for task %d, not %d", len(list), task, n)
	}
}

// utility returns what the answer is worth.
func (s *Simulator) utility(o *Outcome) float64 {
	task := &s.table.Tasks[o.Request.Task]
	return task.Worth(s.prompts.Quality(task, &o.Request, o.Variant), o.Took(), o.Deadlines(task))
}

// routed returns what a router takes the answer to be worth, which has no scores of prompts.
func (s *Simulator) routed(o *Outcome) float64 {
	if o.Request.Prompt == 0 {
		return o.Utility
	}
	task := &s.table.Tasks[o.Request.Task]
	return task.Utility(o.Variant, o.Took(), o.Deadlines(task))
}
