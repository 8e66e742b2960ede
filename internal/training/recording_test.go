package training

import (
	"reflect"
	"testing"
	"time"

	"gearshift/router/fleet"
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
