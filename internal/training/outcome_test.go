package training

import (
	"strings"
	"testing"

	"gearshift/env/evaluation"
)

// A difference below what is shown is none.
func TestOutcomesThatDoNotDiffer(t *testing.T) {
	for after, want := range map[float64]string{
		0.89996: "no better (+0.0000)", 0.90004: "no better (+0.0000)", 0.8998: "WORSE (-0.0002)", 0.9002: "better (+0.0002)",
	} {
		o := Outcome{From: "mine@1", Before: 0.9, After: after}
		var out strings.Builder
		o.write(&out)
		if !strings.Contains(out.String(), ": "+want) || o.worse() != strings.HasPrefix(want, "WORSE") {
			t.Errorf("%v: %s, worse %t; want %s", after, out.String(), o.worse(), want)
		}
	}
}

// The end of a log, which is judged by mean utility, makes no policy worse that was trained for
// something else; and what is compared by what is said.
func TestOutcomeByAnObjective(t *testing.T) {
	less := evaluation.Interval{Mean: -0.02, Lo: -0.03, Hi: -0.01}
	for _, c := range []struct {
		objective string
		after     float64
		worse     bool
		want      []string
	}{
		{"", 0.95, true, []string{"0.9500, was 0.9000 with mine@1: better", "(-0.0300 to -0.0100) compared with mine@1 over 40 requests: WORSE"}},
		{"near-peak", 0.95, false, []string{"0.9500 of near-peak, was 0.9000 with mine@1: better", "(-0.0300 to -0.0100) of utility compared with mine@1 over 40 requests: WORSE"}},
		{"near-peak", 0.85, true, []string{"0.8500 of near-peak, was 0.9000 with mine@1: WORSE"}},
	} {
		o := Outcome{From: "mine@1", Objective: c.objective, Before: 0.9, After: c.after, HeldOut: &less, Requests: 40}
		var out strings.Builder
		o.write(&out)
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("for %q: no %q in\n%s", c.objective, want, out.String())
			}
		}
		if o.worse() != c.worse {
			t.Errorf("for %q, validation %v: worse %t", c.objective, c.after, o.worse())
		}
	}
}
