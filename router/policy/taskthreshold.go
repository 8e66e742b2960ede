package policy

import (
	"fmt"
	"strings"

	"gearshift/router/fleet"
)

// TaskThreshold is a [Threshold] for each task: all count the requests in
// flight over the whole fleet, and each task steps down at limits of its own,
// so that those keep the large variants longest that lose most without them.
type TaskThreshold struct {
	ladders []*Threshold // by task
	named
}

// NewTaskThreshold makes the rule of the limits of each task of t, in the
// table's order; see [NewThreshold]. No ladders at all, or one that is empty,
// stand for [DefaultLimits].
func NewTaskThreshold(t *fleet.Table, limits ...[]int) (*TaskThreshold, error) {
	if len(limits) == 0 {
		limits = make([][]int, len(t.Tasks))
	}
	if len(limits) != len(t.Tasks) {
		return nil, fmt.Errorf("a task-threshold policy for %d tasks takes as many ladders, not %d", len(t.Tasks), len(limits))
	}
	p := &TaskThreshold{}
	var words []string
	for i, ladder := range limits {
		one, err := NewThreshold(t, ladder...)
		if err != nil {
			return nil, fmt.Errorf("task %q: %w", t.Tasks[i].Name, err)
		}
		p.ladders = append(p.ladders, one)
		words = append(words, strings.TrimPrefix(strings.TrimPrefix(one.Name(), "threshold"), ":"))
	}
	p.named = named(strings.TrimRight("task-threshold:"+strings.Join(words, "/"), ":/"))
	return p, nil
}

// Match checks the numbers of tasks and variants.
func (p *TaskThreshold) Match(t *fleet.Table) error {
	if len(p.ladders) != len(t.Tasks) {
		return fmt.Errorf("it was made for %d tasks, the fleet has %d", len(p.ladders), len(t.Tasks))
	}
	return p.ladders[0].Match(t)
}

// Decide implements router.Policy.
func (p *TaskThreshold) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	return p.ladders[r.Task].Decide(v, r, scratch)
}
