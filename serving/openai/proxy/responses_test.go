package proxy

import (
	"strconv"
	"testing"

	"gearshift/serving/work"
)

func TestResponsesAreBounded(t *testing.T) {
	r := NewResponses(work.WallClock())
	for i := range mostResponses + 10 {
		r.Keep(strconv.Itoa(i), 0, "")
		r.Keep(strconv.Itoa(i), 1, "") // the same again
	}
	r.Keep("no ID", 0, "")
	if len(r.known) != mostResponses || len(r.order) != mostResponses {
		t.Errorf("%d are known, %d in order; want %d", len(r.known), len(r.order), mostResponses)
	}
	for id, want := range map[string]bool{"9": false, "10": true, strconv.Itoa(mostResponses + 9): true} {
		if at, ok := r.Find(id); ok != want || ok && at.Replica != 1 {
			t.Errorf("%s: known %v, at %+v; want %v", id, ok, at, want)
		}
	}
}
