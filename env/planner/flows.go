package planner

import (
	"fmt"
	"math"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// flow is requests that are worth the same: a task's, or those of its requests that carry
// prompts with like scores.
type flow struct {
	task  fleet.Task // with these qualities
	index int        // of the task
	share float64    // of all requests
}

// scoreSteps sets how finely scores are distinguished; they are rounded up, so that a bound stays
// one.
const scoreSteps = 4

// flows divides the requests. Those that carry prompts are told apart by their scores, as who
// knows them could.
func flows(c *env.Config, shape workloads.Shape) (list []flow) {
	for i, share := range shape.Mix.Shares(c.Table.Tasks) {
		task := c.Table.Tasks[i]
		if c.Prompts == nil || shape.Carried == nil || len(shape.Carried[i]) == 0 {
			list = append(list, flow{task, i, share})
			continue
		}
		at, part := map[string]int{}, share/float64(len(shape.Carried[i]))
		for _, prompt := range shape.Carried[i] {
			scores := make([]float64, len(task.Quality))
			for v, x := range c.Prompts.Scores[prompt] {
				if c.Table.Answers(i, v) {
					scores[v] = math.Ceil(float64(x)*scoreSteps) / scoreSteps
				}
			}
			key := fmt.Sprint(scores)
			if _, known := at[key]; !known {
				at[key] = len(list)
				alike := task
				alike.Quality = scores
				list = append(list, flow{alike, i, 0})
			}
			list[at[key]].share += part
		}
	}
	return list
}
