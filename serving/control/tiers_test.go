package control_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/router/tiers"
	"gearshift/serving/control"
)

// TestASlowTierGetsLess: of two tiers that are said to compute as much as each other, the one whose
// requests take three times as long ends with a quarter of them, and as many in flight.
func TestASlowTierGetsLess(t *testing.T) {
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: time.Second, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "m"}},
		[]fleet.Host{{Name: "fast"}, {Name: "slow"}}, []fleet.Replica{{Name: "m@fast"}, {Name: "m@slow", Host: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ledger := fleet.NewLedger(table)
	list, members := []tiers.Tier{{Name: "fast", Compute: 10}, {Name: "slow", Compute: 10}}, []tiers.Membership{{Tier: 0, Compute: 10}, {Tier: 1, Compute: 10}}
	b := tiers.NewBalancer(balance.SmallestBatch{}, members, list)
	m, err := control.NewTiers(control.TiersOptions{
		Busy: signals.NewBusy(ledger, signals.BusyOptions{}), Tiers: list, Members: members,
		Controller: tiers.Defaults, Balancer: b,
	})
	if err != nil {
		t.Fatal(err)
	}
	type held struct {
		lease fleet.Lease
		ends  time.Duration
	}
	var (
		running []held
		random  = rand.New(rand.NewPCG(1, 2))
		view    fleet.View
		counts  [2]float64
		next    time.Duration
	)
	const each, length = 20 * time.Millisecond, 20 * time.Minute
	for now := time.Duration(0); now < length; now += each {
		kept := running[:0]
		for _, h := range running {
			if h.ends <= now {
				h.lease.End()
			} else {
				kept = append(kept, h)
			}
		}
		running = kept
		for now >= next {
			next = m.Wake(now)
		}
		ledger.View(now, &view)
		i := b.Pick(&view, &fleet.Request{}, 0, random.Uint64())
		if now >= length/2 {
			counts[i]++
		}
		lease, ok := ledger.Begin(i, 0)
		if !ok {
			t.Fatalf("no place on replica %d", i)
		}
		running = append(running, held{lease, now + time.Duration(1+2*i)*200*time.Millisecond})
	}
	if part := counts[1] / (counts[0] + counts[1]); math.Abs(part-0.25) > 0.02 {
		t.Errorf("the slow tier gets %.3f of the requests in the end, want .25", part)
	}
}

func TestBadTiers(t *testing.T) {
	if _, err := control.NewTiers(control.TiersOptions{Tiers: []tiers.Tier{{Name: "a", Compute: 1}}, Controller: tiers.Defaults}); err == nil {
		t.Error("a single tier is taken")
	}
}
