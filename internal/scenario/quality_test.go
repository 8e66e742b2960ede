package scenario_test

import (
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
)

// A file without the section has no predictor, and is the world that it was.
func TestQualityIsNotPredictedByDefault(t *testing.T) {
	s := parse(t, minimal(t))
	q := scenario.Of[scenario.Quality](s)
	if s.Predictor() != "" || q.KeepPrompts || !q.Headers || q.Shadow.Share != 0 || q.Feedback.Within != time.Hour || q.Learn.Every != time.Minute {
		t.Errorf("the defaults are %+v", q)
	}
	for lines, same := range map[string]bool{
		"quality: {headers: false, learn: {every: 5m}}\n": true,
		"quality: {predictor: chat}\n":                    false,
	} {
		if got := parse(t, minimal(t)+lines).Hash() == s.Hash(); got != same {
			t.Errorf("%q: the same world is %v, want %v", lines, got, same)
		}
	}
}

// A variant has its own name in scores unless the file says another.
func TestColumnsOfVariants(t *testing.T) {
	s := parse(t, minimal(t, "- name: small", "- name: small\n    scores_as: opt-125m"))
	if got := strings.Join(s.Columns(), " "); got != "opt-125m large" {
		t.Errorf("the columns are %s", got)
	}
}
