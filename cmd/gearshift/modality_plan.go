package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/router/modality"
)

// modalityQueue is the input of a plan. Times are absolute, in one unit throughout.
type modalityQueue struct {
	FreeAt  float64
	Mode    modality.Mode
	Mixing  modality.Mixing
	Options []modality.Option
	Jobs    []modality.Job
}

// plannedModality is the output of a plan.
type plannedModality struct {
	Objective float64      `json:"objective"` // sum of mean quality × size over the jobs kept
	Jobs      []plannedJob `json:"jobs"`      // in the order in which they run
	Dropped   []string     `json:"dropped"`
	// Gap is by how much the objective of the best plan may be higher, where it was not found.
	Gap float64 `json:"gap,omitempty"`
	MS  float64 `json:"ms"` // that planning took
}

// plannedJob says which inputs a plan uses for a job.
type plannedJob struct {
	ID       string         `json:"id"`
	Strategy map[string]int `json:"strategy"` // requests by option
	Quality  float64        `json:"quality"`  // mean of its requests
	Finish   float64        `json:"finish"`
}

// newModalityCommand returns the command group.
func newModalityCommand() *cobra.Command {
	group := cli.Group("modality", "Plan which inputs of a multimodal model are used", newModalityPlan(), newModalityTable())
	group.Long = `A multimodal model need not see every input. These commands plan which ones the requests
of jobs use, so that each job keeps its quality floor and its deadline.`
	return group
}

func newModalityPlan() *cobra.Command {
	var of optionsOf
	command := &cobra.Command{
		Use:   "plan --in FILE.json",
		Short: "Print the best plan of a queue of jobs as JSON",
		Long: `Reads a queue of jobs and prints the plan that keeps as many of them, in order of
deadline, as can be kept, at the highest sum of qualities: for each job how many of its
requests each combination of inputs answers, in at most one batch of a combination.

The input has the combinations ("options", each with the quality of its answers and the
time of a batch of 1, 2, … requests) and the jobs, with absolute deadlines, all in one
unit of time. free_at is when the worker is free. mode is "prefix-safe", the default,
which keeps the deadline of every job of the plan, or "literal", the paper's program,
which may make one job late for the sake of another. mixing is "mixed", the default, or
"uniform", where all requests of a job use the same inputs. With --scenario the options
are those of a scenario's model, in milliseconds, and the file has none. A queue of one job:

  {"options": [{"name": "audio", "quality": 0.67, "latency": [20, 40]},
               {"name": "both", "quality": 0.80, "latency": [60, 120]}],
   "jobs": [{"id": "1", "size": 2, "min_quality": 0.7, "deadline": 100}]}`,
	}
	cli.Plan(command, "queue", func(name string, text []byte) (any, error) {
		options, err := of.read()
		if err != nil {
			return nil, err
		}
		return planJobs(name, text, options)
	})
	f := command.Flags()
	f.StringVar(&of.scenario, "scenario", "", "built-in `name or file` of the scenario whose model's combinations are the options")
	f.StringVar(&of.model, "model", "", "`NAME` of the scenario's model (default: the first with modalities)")
	f.StringVar(&of.task, "task", "", "`NAME` of the task whose qualities count (default: the first that the model answers)")
	f.StringVar(&of.host, "host", "", "`NAME` of the host whose times count (default: the first with the model)")
	return command
}

// queueLimit is the most states that are tried after a job: a plan then takes seconds at most.
const queueLimit = 1 << 12

// mostJobs bounds a queue: the memory of a plan grows with its square.
const mostJobs = 1000

// planJobs plans the queue of a JSON file, which has no options of its own if they are given.
func planJobs(name string, text []byte, options []modality.Option) (*plannedModality, error) {
	q, table, err := readQueue(name, text, options)
	if err != nil {
		return nil, err
	}
	planner, err := modality.NewPlanner(table, q.Mode)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	planner.Limit(queueLimit)
	var plan modality.Plan
	began := time.Now()
	planner.Plan(q.FreeAt, q.Jobs, &plan)
	return q.planned(table, &plan, time.Since(began)), nil
}

// table checks the queue, and makes the table of the sizes that it has.
func (q *modalityQueue) table() (*modality.Table, error) {
	largest, longest := 1, 0
	for i := range q.Options {
		longest = max(longest, len(q.Options[i].Latency))
	}
	seen := map[string]bool{}
	for i := range q.Jobs {
		j := &q.Jobs[i]
		if seen[j.ID] {
			return nil, fmt.Errorf("jobs[%d]: the id %q is there twice", i, j.ID)
		}
		seen[j.ID] = true
		largest = max(largest, min(j.Size, longest))
	}
	if len(q.Jobs) > mostJobs {
		return nil, fmt.Errorf("jobs: %d; at most %d", len(q.Jobs), mostJobs)
	}
	table, err := modality.NewTable(q.Options, q.Mixing, 1) // which checks the options
	if err != nil {
		return nil, err
	}
	for i := range q.Jobs {
		if err := table.CheckSize(&q.Jobs[i]); err != nil {
			return nil, err
		}
	}
	if table, err = modality.NewTable(q.Options, q.Mixing, largest); err != nil {
		return nil, err
	}
	for i := range q.Jobs {
		if err := table.Check(&q.Jobs[i]); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// planned is the plan in names.
func (q *modalityQueue) planned(table *modality.Table, plan *modality.Plan, took time.Duration) *plannedModality {
	p := &plannedModality{
		Objective: plan.Objective, Gap: plan.Gap, Jobs: []plannedJob{}, Dropped: []string{},
		MS: float64(took.Nanoseconds()) / float64(time.Millisecond),
	}
	for _, s := range plan.Steps {
		j := &q.Jobs[s.Job]
		job := plannedJob{
			ID: j.ID, Strategy: map[string]int{}, Finish: s.Finish,
			Quality: table.Front(j.Size)[s.Strategy].Value / float64(j.Size),
		}
		for k, n := range table.Batches(j.Size, s.Strategy, nil) {
			if n > 0 {
				job.Strategy[q.Options[k].Name] = n
			}
		}
		p.Jobs = append(p.Jobs, job)
	}
	for _, i := range plan.Dropped {
		p.Dropped = append(p.Dropped, q.Jobs[i].ID)
	}
	return p
}

// readOptions reads the combinations of inputs of a queue in a file.
func readOptions(path string) ([]modality.Option, error) {
	text, name, err := output.Read(path, strings.NewReader(""))
	if err != nil {
		return nil, fmt.Errorf("cannot read options: %w", err)
	}
	q, _, err := readQueue(name, text, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read options: %w", err)
	}
	return q.Options, nil
}
