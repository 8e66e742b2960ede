package besteffort

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/reports"
	"gearshift/router/profile"
)

// The row of a trace compares both policies on its second half with the best rule there.
func TestATracesRow(t *testing.T) {
	s := titan(t)
	s.Evaluation.Requests = 40
	p := &paper{Run: &reports.Run{Quick: true, Stderr: t.Output()}, scenario: s}
	row := p.onTrace(t.Context(), "arena", "slackfit:0.9", "static:opt-125m")
	text, err := json.Marshal(row)
	if err != nil || len(row) != 8 || !strings.HasPrefix(string(text), `["arena",10,`) || row[2] == row[3] {
		t.Errorf("%s, %v", text, err)
	}
}

// Laws follow from the seed, and each changes another part of the profile.
func TestDistortedLaws(t *testing.T) {
	s := titan(t)
	declared := s.Models[0].Profile
	var laws []profile.Profile
	for _, d := range distortions(1) {
		laws = append(laws, d.world(s).Models[0].Profile)
	}
	if s.Models[0].Profile != declared {
		t.Error("the scenario itself is changed")
	}
	if laws[0].Growth <= declared.Growth || laws[1].Token <= declared.Token || laws[2].Contention <= declared.Contention ||
		laws[0].Token != declared.Token || laws[1].Contention != declared.Contention || laws[2].Growth != declared.Growth {
		t.Errorf("%+v of %+v", laws, declared)
	}
	names := func(seed uint64) (list []string) {
		for _, d := range distortions(seed) {
			list = append(list, d.name)
		}
		return list
	}
	if !slices.Equal(names(1), names(1)) || slices.Equal(names(1), names(2)) {
		t.Error("laws do not follow from the seed")
	}
}
