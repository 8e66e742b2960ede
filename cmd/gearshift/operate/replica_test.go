package operate

import (
	"strings"
	"testing"

	"gearshift/serving/admin/overview"
)

// TestReplicaThatStaysDown has a load that cannot bring its replica up.
func TestReplicaThatStaysDown(t *testing.T) {
	down := overview.ReplicaStatus{Name: "small@a"}
	down.State, down.Why = "ejected", "connect"
	down.Lifecycle.State = "down"
	up := overview.ReplicaStatus{Name: "small@a"}
	up.Lifecycle.State = "up"
	for verb, want := range map[string]bool{"load": true, "wake": true, "unload": false, "sleep": false, "drain": false, "undrain": false} {
		o := &replicaOrder{verb: verb}
		if err := o.unfollowed(&down); (err != nil) != want {
			t.Errorf("%s of a replica that is down: error %v", verb, err)
		} else if want && !strings.Contains(err.Error(), "small@a is down, and no "+verb+" brings it up") {
			t.Errorf("%s: %v", verb, err)
		}
		if err := o.unfollowed(&up); err != nil {
			t.Errorf("%s of a replica that is up: %v", verb, err)
		}
	}
}

// TestNotesSayNothingTwice has an engine's reason in the order's error as well.
func TestNotesSayNothingTwice(t *testing.T) {
	var r overview.ReplicaStatus
	r.Note = "drift"
	r.Lifecycle.Error, r.Lifecycle.Note = "small@a was not loaded: no whole file", "no whole file"
	if got, want := noteOf(&r), "small@a was not loaded: no whole file; drift"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}
