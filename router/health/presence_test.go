package health_test

import (
	"testing"

	"gearshift/router/fleet"
	"gearshift/router/health"
)

// No late result of an engine that is gone counts for its slot, or for its next engine.
func TestSlotsForgetTheirEngines(t *testing.T) {
	r := rigAt(t, []string{"a:1", "a:1", "b:1"})
	r.saw(r.Failed(0, health.Connect, r.now, r.now)) // which takes the two of its address out
	if r.ledger.State(0) != fleet.Down || r.ledger.State(1) != fleet.Down || r.ledger.State(2) != fleet.Up {
		t.Fatalf("states %v", r.ledger.States(nil))
	}
	sent := r.now
	r.now++
	r.Vacate(0, r.now)
	heard := len(r.log)
	for _, f := range health.Findings {
		r.saw(r.Probed(0, f, r.now))
	}
	r.saw(r.Failed(0, health.Connect, r.now, r.now))
	r.saw(r.Listed(0, "it lacks it", r.now))
	r.Occupy(0, "c:1", r.now)
	r.saw(r.Failed(0, health.Connect, sent, r.now)) // of a request to the engine before
	if len(r.log) != heard || r.Statuses()[0].State != health.Up || r.ledger.State(0) != fleet.Up {
		t.Fatalf("log %q, status %+v", r.log[heard:], r.Statuses()[0])
	}
	r.saw(r.Failed(0, health.Connect, r.now, r.now))
	if r.ledger.State(0) != fleet.Down || r.ledger.State(2) != fleet.Up {
		t.Errorf("states %v; a refusal counts for the new address alone", r.ledger.States(nil))
	}
}

// The share of replicas that may be out is taken of those with an engine.
func TestVacantSlotsAreNoReserve(t *testing.T) {
	r := newRig(t, 10, func(c *health.Config) { c.MaxEjected = 0.5 })
	for i := 2; i < 10; i++ {
		r.Vacate(i, r.now)
	}
	for i := range 2 {
		for range 20 {
			r.saw(r.Failed(i, health.Broken, r.now, r.now))
		}
	}
	if up := r.ledger.State(1); up != fleet.Up || r.ledger.State(0) != fleet.Down {
		t.Errorf("states %v; want one of the two out", r.ledger.States(nil)[:2])
	}
}
