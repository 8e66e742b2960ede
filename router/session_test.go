package router_test

import (
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// A session stays on its replica also where other requests see a part of the fleet,
// and another router, with other random numbers, sends it there too.
func TestSessionsStayOnTheirReplicaInALargeFleet(t *testing.T) {
	const hosts, sessions, turns = 64, 20, 5
	homes := map[uint64]int{}
	for seed := range uint64(2) {
		core := newCore(t, 0, func(c *router.Config) {
			table := conformance.FleetOf(hosts, 0)
			c.Ledger, c.Fallback, c.Seed = fleet.NewLedger(table), static(t, table, 1), seed
			c.Balancer = balance.Affinity{Balancer: balance.LeastHarm{}, Bound: 1.25}
			c.Forecaster = profile.NewForecaster(profiles(table))
		})
		setPolicy(t, core, static(t, core.Table(), 1))
		for i := range uint64(sessions * turns) {
			r := &fleet.Request{Session: 1 + i%sessions, PromptTokens: 90}
			choice, err := route(core, r, time.Duration(i)*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if home, ok := homes[r.Session]; ok && choice.Replica != home {
				t.Errorf("session %d went to replica %d, then to %d", r.Session, home, choice.Replica)
			}
			homes[r.Session] = choice.Replica
			choice.Lease.End()
		}
	}
}
