package scenario_test

import (
	"testing"

	"gearshift/router/fleet"
)

// TestTiersWithABalancerThatAsks: a scenario may have both, and what chooses again after engines were
// asked knows the tiers.
func TestTiersWithABalancerThatAsks(t *testing.T) {
	for _, balancer := range []string{"probing", "prequal", "sampled:2"} {
		s := parse(t, minimal(t,
			"  - {name: gpu0, memory: 8GiB}", "  - {name: gpu0, memory: 8GiB, compute: 2}\n  - {name: gpu1, memory: 8GiB, compute: 1}",
			"  - {variant: small, hosts: [gpu0]", "  - {variant: small, hosts: [gpu0, gpu1]",
			"name: minimal\n", "name: minimal\nserving:\n  balancer: "+balancer+"\n  tiers: {groups: [{name: a, hosts: [gpu0]}, {name: b, hosts: [gpu1]}]}\n"))
		table := s.ServingTable()
		_, b, err := s.Informed(table)
		if err != nil || b == nil {
			t.Fatal(b, err)
		}
		var v fleet.View
		for _, replica := range table.ReplicasOf(0) {
			for random := range uint64(64) {
				fleet.NewLedger(table).View(0, &v)
				v.Whole()
				if i := b.Again(&v, &fleet.Request{}, replica, random<<58); i != replica {
					t.Fatalf("%s: replica %d is chosen for a request on %d, which is alone in its tier", balancer, i, replica)
				}
			}
		}
	}
}
