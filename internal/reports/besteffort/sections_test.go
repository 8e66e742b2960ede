package besteffort

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
)

// The sections that compare policies are the same data however they are laid out: these are
// the sums of what they were, with rules in the place of trained policies and a few short runs.
func TestTheSectionsAreAsTheyWere(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the sums are of amd64")
	}
	s := titan(t)
	s.Evaluation.Requests, s.Evaluation.StableRates, s.Evaluation.PhaseS = 60, []float64{2, 8, 30}, 5
	p := &paper{
		scenario: s, seeds: []uint64{1, 2}, stderr: t.Output(), cache: map[string]rows{}, options: Options{Quick: true},
		hard: "slackfit:0.9", soft: "threshold:6,90", deadlines: "slackfit:0.8", windows: "threshold:4,60",
		rules: []string{"threshold:8,100", "slackfit"}, tuned: []evaluation.Best{{Trial: evaluation.Trial{Score: 0.8}}, {Trial: evaluation.Trial{Score: 0.7}}},
	}
	for _, c := range []struct {
		name string
		make func(context.Context) report.Section
		want string
	}{
		{"rules", p.rulesSection, "f2d0f96c91575d14"}, {"stable", p.stableSection, "7d5e118fe38dcd9e"}, {"unstable", p.unstableSection, "8744dc67e3b76d7d"},
		{"soft", p.softSection, "0cb0e08ea82b378e"}, {"shift", p.shiftSection, "79c5279124d7a320"}, {"hardware", p.hardwareSection, "dd38cf2366fea8d5"},
		{"deadlines", p.deadlineSection, "4148c6a02d5d579e"}, {"beyond", p.beyondSection, "6ad2f1fa21dc4eb6"},
		{"fluid", func(ctx context.Context) report.Section {
			return report.Section{Figures: []report.Figure{p.fluid(ctx)}}
		}, "80212b4c3bfd4109"},
	} {
		text, err := json.Marshal(c.make(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:8]) != c.want {
			t.Errorf("%s: sum %x, want %s", c.name, sum[:8], c.want)
		}
	}
}
