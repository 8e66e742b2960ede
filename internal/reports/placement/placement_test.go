package placement

import (
	"io"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/reports"
	"gearshift/workloads"
)

const shifting = "../../../docs/scenarios/titan-rtx-shifting.yaml"

// The report plays fleets that stay and rules that decide, under laws, with the same seeds, none of which is of training.
func TestTheReport(t *testing.T) {
	p := &study{Run: &reports.Run{Seeds: 2, Quick: true, Stderr: io.Discard}, name: shifting}
	made := p.study()
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	p.requests = 500
	r, err := made.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Repeat = "again"
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if len(r.Sections) != 5 || len(r.Verdict) != 10 {
		t.Errorf("%d sections, %q", len(r.Sections), r.Verdict)
	}
	var names []string
	for _, f := range p.fleets {
		names = append(names, f.name)
	}
	want := "fixed: opt-125m + opt-1.3b + opt-6.7b, fixed: opt-125m + opt-1.3b-large, opt-125m alone, opt-1.3b alone, opt-6.7b alone, worth, bands"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("fleets %s, want %s", got, want)
	}
	if slices.Contains(p.seeds, workloads.Seed(workloads.Training, 0)) {
		t.Error("a seed of training is among those of the report")
	}
	if day := r.Sections[2].Tables[0].Rows; len(day) != 5+2*2 {
		t.Errorf("%d rows of a day, want five fleets that stay and two rules under two laws", len(day))
	}
}

// Engines take the times of a law, whatever the scenario says: what the simulator and controllers know is the same.
func TestALawReplacesTheTimesOfModels(t *testing.T) {
	p := &study{Run: &reports.Run{Seeds: 2}, name: shifting}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	for _, l := range laws() {
		models := l.on(p.scenario).Table().Models
		small, large := &models[0], &models[2]
		if wake := models[0].WakeTime().Seconds() * 1000; wake != l.Small.Wake || large.WakeTime().Seconds()*1000 != l.Large.Wake || l.loads && small.Load != small.Wake {
			t.Errorf("%s: %+v and %+v", l.Name, *small, *large)
		}
	}
}

// A scenario in which nothing decides is refused before anything is written.
func TestScenariosOfThePlacementReport(t *testing.T) {
	p := &study{Run: &reports.Run{Seeds: 2}, name: "titan-rtx-opt"}
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "want serving.placement in it") {
		t.Errorf("the error is %v", err)
	}
}
