package catalogue

import (
	"fmt"
	"net/http"
	"strings"

	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// headerTask names the task of a request.
const headerTask = "X-Gearshift-Task"

// Task is the index of a request's task. The header must name one; metadata is the
// application's own, whose "task" may be another matter. Variant is [work.Auto], or pinned.
func (k *Catalogue) Task(h http.Header, metadata string, variant int) (int, *wire.Refusal) {
	if name := wire.Field(h, headerTask); name != "" {
		return k.TaskNamed(name, "x-gearshift-task")
	}
	if i := k.Table.TaskIndex(metadata); i >= 0 {
		return i, nil
	}
	return k.taskFor(variant), nil
}

// Named is the task that a request names; empty if it names none of the table's.
func (k *Catalogue) Named(h http.Header, metadata string) string {
	if name := wire.Field(h, headerTask); name != "" {
		return name
	}
	if k.Table.TaskIndex(metadata) < 0 {
		return ""
	}
	return metadata
}

// TaskNamed is the index of a task; no name stands for the default. Param is where the
// request names it.
func (k *Catalogue) TaskNamed(name, param string) (int, *wire.Refusal) {
	if name == "" {
		return k.DefaultTask(), nil
	}
	if i := k.Table.TaskIndex(name); i >= 0 {
		return i, nil
	}
	names := make([]string, len(k.Table.Tasks))
	for i := range k.Table.Tasks {
		names[i] = k.Table.Tasks[i].Name
	}
	return 0, wire.Bad(http.StatusBadRequest, param, "unknown_task", fmt.Sprintf("there is no task %q; there are %s", name, strings.Join(names, ", ")))
}

// Answers refuses a pinned variant that does not answer the task.
func (k *Catalogue) Answers(task, variant int) *wire.Refusal {
	if variant == work.Auto || k.Table.Answers(task, variant) {
		return nil
	}
	return wire.Bad(http.StatusBadRequest, "model", "model_not_for_task", fmt.Sprintf("%q does not answer task %q; %s or %s would",
		k.Table.Variants[variant].Name, k.Table.Tasks[task].Name, AutoModel, strings.Join(k.answering(task), ", ")))
}

// answering names the variants that answer the task.
func (k *Catalogue) answering(task int) (names []string) {
	for v := range k.Table.Variants {
		if k.Table.Answers(task, v) {
			names = append(names, k.Table.Variants[v].Name)
		}
	}
	return names
}

// taskFor is the task of a request that names none: the default or, if a pinned variant
// does not answer that, the first that it answers.
func (k *Catalogue) taskFor(variant int) int {
	task := k.DefaultTask()
	if variant == work.Auto || k.Table.Answers(task, variant) {
		return task
	}
	for i := range k.Table.Tasks {
		if k.Table.Answers(i, variant) {
			return i
		}
	}
	return task
}
