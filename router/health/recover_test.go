package health_test

import (
	"testing"
	"time"

	"gearshift/router/health"
)

// Who waits for room is begun as soon as there is any: a replica that comes back must
// not be without a bound even for a moment.
func TestThoseWhoWaitAreNoBurstOnAReplicaThatComesBack(t *testing.T) {
	r := newRig(t, 2)
	for range 40 {
		r.ledger.Begin(1, 0)
	}
	r.fail(0, health.Connect, 1)
	took := 0
	r.ledger.OnRoom(func() {
		for {
			if _, ok := r.ledger.Begin(0, 0); !ok {
				return
			}
			took++
		}
	})
	r.pass(5 * time.Second)
	r.succeed(0, 2)
	if took == 0 || took > 2 {
		t.Errorf("%d at once on a replica that just came back, want 2", took)
	}
}
