package serving

import (
	"fmt"
	"net/http"
	"strings"

	"gearshift/serving/wire"
	"gearshift/serving/work"
)

// answers refuses a pinned variant that does not answer the task.
func (s *Server) answers(task, variant int) *wire.Refusal {
	if variant == work.Auto || s.table.Answers(task, variant) {
		return nil
	}
	return wire.Bad(http.StatusBadRequest, "model", "model_not_for_task", fmt.Sprintf("%q does not answer task %q; %s or %s would",
		s.table.Variants[variant].Name, s.table.Tasks[task].Name, AutoModel, strings.Join(s.answering(task), ", ")))
}

// answering names the variants that answer the task.
func (s *Server) answering(task int) (names []string) {
	for v := range s.table.Variants {
		if s.table.Answers(task, v) {
			names = append(names, s.table.Variants[v].Name)
		}
	}
	return names
}

// taskFor is the task of a request that names none: the default or, if a pinned variant
// does not answer that, the first that it answers.
func (s *Server) taskFor(variant int) int {
	task := s.running.Load().task
	if variant == work.Auto || s.table.Answers(task, variant) {
		return task
	}
	for i := range s.table.Tasks {
		if s.table.Answers(i, variant) {
			return i
		}
	}
	return task
}
