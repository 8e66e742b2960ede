package quality

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/internal/quality/labels"
	"gearshift/internal/scenario"
	"gearshift/workloads/prompts"
)

// far bounds the difference between a quality that a scenario declares and the mean score of
// labels: a larger one is reported.
const far = 0.05

// Against lists contradictions between a scenario and the labels: variants without a
// score, and qualities far from the mean scores. It is empty if everything does.
func Against(s *scenario.Scenario, set *labels.Set) (found []string) {
	for v, column := range s.Columns() {
		at := slices.Index(set.Columns, column)
		if at < 0 {
			found = append(found, fmt.Sprintf("variant %s is scored as %q, which the labels do not have: its task's row holds; want scores_as: one of %s",
				s.Variants[v].Name, column, strings.Join(set.Columns, ", ")))
			continue
		}
		for t := range s.Tasks {
			task := &s.Tasks[t]
			declared, answers := task.Quality[s.Variants[v].Name]
			if !answers {
				continue
			}
			mean, n := meanOf(set, at, task.Name)
			if n > 0 && math.Abs(declared-mean) > far {
				found = append(found, fmt.Sprintf("tasks %s: quality %s: %.3g, and the mean score of %d prompts is %.3g; want that",
					task.Name, s.Variants[v].Name, declared, n, mean))
			}
		}
	}
	return found
}

// meanOf returns the mean score of a column over the prompts of the task, or over all if none
// names it.
func meanOf(set *labels.Set, column int, task string) (mean float64, n int) {
	named := slices.ContainsFunc(set.Prompts, func(p prompts.Prompt) bool { return p.Task == task })
	for i := range set.Prompts {
		p := &set.Prompts[i]
		if y := float64(p.Scores[column]); y == y && (!named || p.Task == task) {
			mean, n = mean+y, n+1
		}
	}
	return mean / float64(max(1, n)), n
}
