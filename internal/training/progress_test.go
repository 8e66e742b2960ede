package training

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/rl"
)

// The log counts to where the call stops, and ends its line however it stops.
func TestLogLines(t *testing.T) {
	r := &run{options: Options{Name: "mine", Steps: 2000}, scenario: &scenario.Scenario{Name: "tiny"}, config: rl.Config{Decisions: 9000}, members: []*member{{}}}
	for _, decisions := range []int{1000, 2000} {
		var out bytes.Buffer
		l, err := newRunLog(r, &out)
		if err != nil {
			t.Fatal(err)
		}
		l.terminal = true
		l.start(r)
		l.report(0, rl.Report{Decisions: decisions, Total: 9000})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.Count(text, "\n") != 2 || !strings.HasSuffix(text, "\n") || !strings.Contains(text, "/2000") {
			t.Errorf("after %d decisions: %q", decisions, text)
		}
	}
}

// A line tells of all networks of a run, also of those that an earlier call has ended.
func TestLogOfSeveralNetworks(t *testing.T) {
	ended := &rl.Progress{Decisions: 2000, Utility: rl.Average{Mean: 0.9}}
	for _, c := range []struct {
		second *rl.Progress
		want   string
	}{
		{nil, "1000/2000  ε 0.50  utility 0.700\n"},
		{ended, "1000/2000  ε 0.50  utility 0.750\n"},
	} {
		r := &run{
			scenario: &scenario.Scenario{Name: "tiny"}, members: []*member{{}, {number: 1, progress: c.second}},
			config: rl.Config{Decisions: 2000, Epsilon: rl.Epsilon{Start: 1, Share: 1}},
		}
		var out bytes.Buffer
		l, err := newRunLog(r, &out)
		if err != nil {
			t.Fatal(err)
		}
		l.start(r)
		out.Reset()
		if c.second == nil {
			l.report(1, rl.Report{Decisions: 1500, Total: 2000, Epsilon: 0.25, Utility: 0.8})
		}
		l.report(0, rl.Report{Decisions: 1000, Total: 2000, Epsilon: 0.5, Utility: 0.6})
		shown := regexp.MustCompile(`^ *(1000/2000).*(  ε 0.50  utility 0.7[05]0)  td.*\n$`).ReplaceAllString(out.String(), "$1$2\n")
		if shown != c.want {
			t.Errorf("shown: %q, want %q", out.String(), c.want)
		}
	}
}
