package policy_test

import (
	"strings"
	"testing"

	"gearshift/router/policy"
)

// A rule has one reference, whatever is left out; what is none of any fleet is refused.
func TestCanonical(t *testing.T) {
	for ref, want := range map[string]string{
		"slackfit":             "slackfit:0.93",
		"slackfit:.9300":       "slackfit:0.93",
		"slackfit:0.93, 0.5":   "slackfit:0.93,0.5",
		"task-aware:0.98":      "task-aware:0.98,0.08,1,1,0.5",
		"static:small":         "static:small",
		"threshold":            "threshold",
		"threshold:8, 100":     "threshold:8,100",
		"task-threshold:8/4":   "task-threshold:8/4",
		"least-work:0.45,0.66": "least-work:0.45,0.66",
	} {
		if got, err := policy.Canonical(ref); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", ref, got, err, want)
		}
	}
	for ref, want := range map[string]string{
		"mine": "no such rule", "static": "nothing follows", "static:": "nothing follows", "threshold:": "nothing follows",
		"threshold:a": `"a" is not a whole number`, "task-threshold:8/b": `"b" is not a whole number`,
		"slackfit:x": `"x" is not a number`, "slackfit:1,2,3": "too many", "slackfit:-1": "not -1",
	} {
		if got, err := policy.Canonical(ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", ref, got, err, want)
		}
	}
}
