package rollout

import (
	"slices"
	"testing"

	"gearshift/router/fleet"
)

// Views show which replicas have the version that a roll leads to, until it has ended.
func TestViewsShowNewVersions(t *testing.T) {
	x, ledger := newReplicas(t)
	shown := func() []bool {
		var v fleet.View
		x.mark()
		ledger.View(0, &v)
		return v.Newer
	}
	if got := shown(); len(got) != 0 {
		t.Errorf("%v while nothing changes", got)
	}
	m := &x.models[0]
	m.begin("2", "1", 0)
	if got := shown(); len(got) != 0 {
		t.Errorf("%v before the new version is anywhere", got)
	}
	m.locations[1].versions[1] = "2"
	if got := shown(); !slices.Equal(got, []bool{false, false, false, true}) {
		t.Errorf("%v, want the second replica of the second location", got)
	}
	m.locations[0].versions[1] = "2"
	if got := shown(); !slices.Equal(got, []bool{false, false, true, true}) {
		t.Errorf("%v, want both second replicas", got)
	}
	m.rolling = false
	if got := shown(); len(got) != 0 {
		t.Errorf("%v once all have the version", got)
	}
}
