package besteffort

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
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
		Run: &reports.Run{Quick: true, Stderr: t.Output()}, scenario: s, seeds: []uint64{1, 2}, cache: map[string]rows{},
		hard: "slackfit:0.9", soft: "threshold:6,90", deadlines: "slackfit:0.8", windows: "threshold:4,60",
		rules: []string{"threshold:8,100", "slackfit"}, tuned: []evaluation.Best{{Trial: evaluation.Trial{Score: 0.8}}, {Trial: evaluation.Trial{Score: 0.7}}},
	}
	want := map[string]string{
		"rules": "f2d0f96c91575d14", "stable": "7d5e118fe38dcd9e", "unstable": "8744dc67e3b76d7d", "soft": "0cb0e08ea82b378e", "shift": "79c5279124d7a320",
		"hardware": "dd38cf2366fea8d5", "deadlines": "4148c6a02d5d579e", "beyond": "6ad2f1fa21dc4eb6",
	}
	is := func(name string, section report.Section, want string) {
		t.Helper()
		text, err := json.Marshal(section)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:8]) != want {
			t.Errorf("%s: sum %x, want %s", name, sum[:8], want)
		}
	}
	for _, x := range p.study(nil).Sections {
		if want[x.ID] == "" {
			continue
		}
		out := &reports.Part{Section: report.Section{ID: x.ID, Title: x.Title}, Report: &report.Report{}}
		if err := x.Make(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		is(x.ID, out.Section, want[x.ID])
		delete(want, x.ID)
	}
	if len(want) > 0 {
		t.Errorf("no sections %v", want)
	}
	is("fluid", report.Section{Figures: []report.Figure{p.fluid(t.Context())}}, "80212b4c3bfd4109")
}
