package balance_test

import (
	"testing"

	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// coresident is two hosts with a small and a large variant each, in this order, and
// what its least-work balancer goes by: a step of the large one takes ten times as
// long, and neighbours slow nobody.
func coresident(t *testing.T, contention float64) (*fleet.View, balance.LeastWork) {
	t.Helper()
	return coresidentOn(t, make([]fleet.Host, 2), contention)
}

func coresidentOn(t *testing.T, hosts []fleet.Host, contention float64) (*fleet.View, balance.LeastWork) {
	t.Helper()
	var replicas []fleet.Replica
	b := balance.LeastWork{Context: 200}
	for host := range hosts {
		hosts[host].Name = string(rune('a' + host))
		for variant, ms := range []float64{1, 10} {
			replicas = append(replicas, fleet.Replica{Variant: variant, Host: host, KVTokens: 10_000})
			b.Profiles = append(b.Profiles, &profile.Profile{Weights: ms, Sequence: ms / 100, Contention: contention})
		}
	}
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, hosts, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet.View{Table: table, InFlight: make([]int32, len(replicas)), Held: make([]int32, len(replicas)), Down: make([]bool, len(replicas))}, b
}

// picks is what the balancer picks whatever the chance, or −2 if chance decides.
func picks(v *fleet.View, b balance.Balancer, r fleet.Request, variant int) int {
	first := b.Pick(v, &r, variant, 0)
	for random := range uint64(64) {
		if b.Pick(v, &r, variant, random<<58) != first {
			return -2
		}
	}
	return first
}

func TestLeastWorkCountsByVariantNotByHost(t *testing.T) {
	v, b := coresident(t, 0)
	const largeA, largeB = 1, 3
	// Host a has many small requests, host b a single large one: by requests b is
	// the idler, but the large replica of a has nothing to do.
	v.InFlight, v.Held = []int32{40, 0, 0, 1}, []int32{4000, 0, 0, 150}
	if i := picks(v, b, fleet.Request{PromptTokens: 100}, 1); i != largeA {
		t.Errorf("picked %d, want %d", i, largeA)
	}
	v.InFlight[largeB], v.Held[largeB] = 0, 0
	if i := picks(v, b, fleet.Request{PromptTokens: 100}, 1); i != -2 {
		t.Errorf("both idle and nobody slowed: picked %d always, want either", i)
	}
	// Where neighbours slow a step, they count by that.
	if v, b = coresident(t, 0.5); true {
		v.InFlight[0] = 40
	}
	if i := picks(v, b, fleet.Request{PromptTokens: 100}, 1); i != largeB {
		t.Errorf("picked %d, want %d, which nobody slows", i, largeB)
	}
}

func TestLeastWorkMindsFullCaches(t *testing.T) {
	v, b := coresident(t, 0)
	v.InFlight, v.Held = []int32{0, 4, 0, 40}, []int32{0, 8100, 0, 4000}
	if i := picks(v, b, fleet.Request{PromptTokens: 100}, 1); i != 3 {
		t.Errorf("picked %d, want 3: the cache of 1 is crowded", i)
	}
	v.Held[3] = 8200
	if i := picks(v, b, fleet.Request{PromptTokens: 100}, 1); i != 1 {
		t.Errorf("with both crowded picked %d, want 1, the less full", i)
	}
}

func TestLeastWorkPricesAFullBatch(t *testing.T) {
	v, b := coresident(t, 0)
	// A cache of ten times the size runs batches that each token of costs less.
	v.InFlight = []int32{0, 9, 0, 3}
	v.Table.Replicas[1].KVTokens, v.Table.Replicas[3].KVTokens = 6000, 600
	if i := picks(v, b, fleet.Request{PromptTokens: 100}, 1); i != 1 {
		t.Errorf("picked %d, want 1", i)
	}
}

func TestLeastWorkTiesAreUniform(t *testing.T) {
	v, b := coresident(t, 0)
	holdFrequencies(t, []float64{.5, 0, .5, 0}, func(random uint64) int {
		return b.Pick(v, &fleet.Request{PromptTokens: 50}, 0, random)
	})
	v.Down[0] = true
	if i := picks(v, b, fleet.Request{}, 0); i != 2 {
		t.Errorf("picked %d, want 2, the only one up", i)
	}
}
