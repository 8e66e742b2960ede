package scenario_test

import (
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/observation"
)

// deadlined is the least scenario with other deadlines in place of its task's own.
func deadlined(t *testing.T, keys string) string {
	t.Helper()
	text := least(t)
	begin := strings.Index(text, "deadline_ms:")
	end := begin + strings.IndexAny(text[begin:], ",\n")
	return text[:begin] + keys + text[end:]
}

// A task has any of the three deadlines; without one per token, what stands for it is that for
// the whole answer by its mean length, or an hour.
func TestDeadlinesOfTasks(t *testing.T) {
	for keys, want := range map[string][4]time.Duration{ // deadline, first token, total, pace
		"deadline_ms: 40":                      {40 * time.Millisecond, 0, 0, 0},
		"deadline_ms: 40, first_token_ms: 900": {40 * time.Millisecond, 900 * time.Millisecond, 0, 0},
		"first_token_ms: 900":                  {0, 900 * time.Millisecond, 0, time.Hour},
		"deadline_ms: 40, total_ms: 9000":      {40 * time.Millisecond, 0, 9 * time.Second, 0},
		"first_token_ms: 900, total_ms: 9000":  {0, 900 * time.Millisecond, 9 * time.Second, -1},
	} {
		s := parse(t, deadlined(t, keys))
		task := s.Table().Tasks[0]
		if want[3] < 0 {
			_, output := s.Workload.Of(task.Name)
			want[3] = time.Duration(9000 / output.Expected() * float64(time.Millisecond))
		}
		if got := [4]time.Duration{task.Deadline, task.FirstToken, task.Total, task.Pace}; got != want {
			t.Errorf("%s: %v, want %v", keys, got, want)
		}
	}
}

func TestFaultsOfDeadlines(t *testing.T) {
	for keys, want := range map[string]string{
		"decay: hard":                        "tasks[0].deadline_ms: missing; a task has a deadline per output token (deadline_ms), to the first of them (first_token_ms) or to the end of the answer (total_ms)",
		"first_token_ms: 0":                  "tasks[0].first_token_ms: a deadline is above 0 ms and at most an hour, not 0",
		"total_ms: 3_600_001":                "tasks[0].total_ms: a deadline is above 0 ms and at most an hour, not 3.600001e+06",
		"first_token_ms: 900, total_ms: 800": "tasks[0].first_token_ms: 900 ms to the first token are more than the 800 ms to the end of the answer (total_ms)",
	} {
		if _, err := scenario.Parse("f.yaml", []byte(deadlined(t, keys))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}

// The observation that follows from the fleet has what is forecast against each deadline that
// is not per token, last; without such deadlines it is as it was.
func TestObservationOfDeadlines(t *testing.T) {
	plain := parse(t, least(t)).Training.Observation
	for keys, want := range map[string][]observation.Kind{
		"deadline_ms: 40, first_token_ms: 900": {observation.FirstToken, observation.FirstTokenDeadline},
		"total_ms: 9000":                       {observation.Total, observation.TotalDeadline},
		"first_token_ms: 900, total_ms: 9000":  {observation.FirstToken, observation.FirstTokenDeadline, observation.Total, observation.TotalDeadline},
	} {
		got := parse(t, deadlined(t, keys)).Training.Observation
		if len(got) != len(plain)+len(want) {
			t.Errorf("%s: %v", keys, got)
			continue
		}
		for i, kind := range want {
			if f := got[len(plain)+i]; f.Kind != kind {
				t.Errorf("%s: %s, want %s", keys, f.Kind, kind)
			}
		}
	}
	for _, f := range plain {
		if f.Kind == observation.FirstToken || f.Kind == observation.Total {
			t.Errorf("%s without such a deadline", f.Kind)
		}
	}
}
