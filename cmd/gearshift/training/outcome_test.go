package training

import (
	"strings"
	"testing"
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
