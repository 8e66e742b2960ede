package training

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/serving/experience"
)

// Only decisions of policies that came one right after another make transitions.
func TestStretches(t *testing.T) {
	row := func(decision uint64, at int) experience.Row {
		return experience.Row{Decision: decision, View: fleet.View{Now: time.Duration(at)}}
	}
	pinned := row(9, 90)
	pinned.Pinned = true
	rows := []experience.Row{row(1, 10), row(2, 20), row(3, 30), row(5, 50), row(6, 60), row(7, 59), row(8, 80), pinned, row(10, 100), row(12, 120)}
	var got [][]uint64
	for _, s := range stretches(rows) {
		var list []uint64
		for _, r := range s {
			list = append(list, r.Decision)
		}
		got = append(got, list)
	}
	if want := [][]uint64{{1, 2, 3}, {5, 6}, {7, 8}}; !reflect.DeepEqual(got, want) {
		t.Errorf("stretches %v, want %v", got, want)
	}
	if len(stretches(nil)) != 0 {
		t.Error("a stretch of nothing")
	}
}

// A reward that a client says it earned teaches nothing.
func TestReportedRewardsAreNotLearned(t *testing.T) {
	reported, seen := experience.Row{Judged: true, Reported: true}, experience.Row{Judged: true}
	recording := &LogRecording{stretches: [][]experience.Row{{reported, seen, reported}}}
	if n := recording.Transitions(); n != 1 {
		t.Errorf("%d transitions with a known reward, want 1", n)
	}
}

// What was predicted of a logged request is observed as it was when that was served.
func TestRecordingsObserveWhatWasPredicted(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	table := s.Table()
	n := len(table.Replicas)
	rows := make([]experience.Row, 2)
	for i := range rows {
		rows[i].Decision = uint64(i + 1)
		rows[i].View = fleet.View{Table: table, Now: time.Duration(i), InFlight: make([]int32, n), Held: make([]int32, n), Down: make([]bool, n)}
	}
	p := &rows[1].Request.Predicted
	p.Known, p.Sure, p.Quality[0] = true, 0.5, 0.25
	spec, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.PredictedQuality, Scale: []float64{1, 1}}, {Kind: observation.PredictedSure},
	})
	if err != nil {
		t.Fatal(err)
	}
	recording, err := NewLogRecording(s, spec, &experience.Log{Runs: []experience.Run{{Header: experience.NewHeader(table), Rows: rows}}})
	if err != nil {
		t.Fatal(err)
	}
	row := table.Tasks[0].Quality
	if got, want := recording.Reset(0), []float32{float32(row[0]), float32(row[1]), 0}; !slices.Equal(got, want) {
		t.Errorf("without a prediction: %v, want the task's row, %v", got, want)
	}
	if got, want := recording.Step(0).Observation, []float32{0.25, 0, 0.5}; !slices.Equal(got, want) {
		t.Errorf("with a prediction: %v, want %v", got, want)
	}
}
