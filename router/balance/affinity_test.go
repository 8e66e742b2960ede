package balance_test

import (
	"math/rand/v2"
	"testing"

	"gearshift/router/balance"
	"gearshift/router/fleet"
)

func sticky(bound float64) balance.Affinity {
	return balance.Affinity{Balancer: balance.SmallestBatch{}, Bound: bound}
}

func TestSessionsStayOnTheirReplica(t *testing.T) {
	v := oneVariant(t, 0, 0, 0, 0, 0)
	rng := rand.NewPCG(1, 2)
	for range 1000 {
		r := fleet.Request{Session: rng.Uint64() | 1}
		home := sticky(1.25).Pick(v, &r, 0, rng.Uint64())
		if again := sticky(1.25).Pick(v, &r, 0, rng.Uint64()); again != home {
			t.Fatalf("a session went to %d, then to %d", home, again)
		}
		// A replica that goes moves its own sessions, and no others.
		gone := rng.Uint64() % 5
		v.Down[gone] = true
		moved := sticky(1.25).Pick(v, &r, 0, rng.Uint64())
		if v.Down[gone] = false; (moved != home) != (int(gone) == home) {
			t.Fatalf("without %d a session of %d went to %d", gone, home, moved)
		}
	}
}

func TestSessionsSpreadEvenly(t *testing.T) {
	v := oneVariant(t, 3, 3, 3, 3, 3)
	holdFrequencies(t, alike(5), func(random uint64) int {
		return sticky(1.25).Pick(v, &fleet.Request{Session: random | 1}, 0, 0)
	})
	sequel := uint64(0) // also those whose hashes are alike
	holdFrequencies(t, alike(5), func(uint64) int {
		sequel++
		return sticky(1.25).Pick(v, &fleet.Request{Session: sequel}, 0, 0)
	})
}

func TestWithoutSessionTheBalancerPicks(t *testing.T) {
	v := oneVariant(t, 4, 2, 2, 3)
	for random := range uint64(256) {
		random <<= 56
		if a, b := sticky(9).Pick(v, &fleet.Request{}, 0, random), (balance.SmallestBatch{}).Pick(v, &fleet.Request{}, 0, random); a != b {
			t.Fatalf("random %#x: picked %d, want %d", random, a, b)
		}
	}
}

// Only so many of one session stick: the busiest replica has at most ⌈c·(m+1)⌉
// where the least busy has m.
func TestAffinityIsBoundedByLoad(t *testing.T) {
	for _, bound := range []float64{1, 1.25, 2} {
		v := oneVariant(t, 0, 0, 0, 0)
		r := fleet.Request{Session: 77}
		home := sticky(bound).Pick(v, &r, 0, 0)
		for range 400 {
			i := sticky(bound).Pick(v, &r, 0, 0)
			least := float64(v.Shortest(0) + 1)
			if v.InFlight[i]++; float64(v.InFlight[i]) >= bound*least+1 {
				t.Fatalf("bound %v: %v in flight", bound, v.InFlight)
			}
		}
		var others int32
		for i, n := range v.InFlight {
			if i != home {
				others = max(others, n)
			}
		}
		if bound > 1 && v.InFlight[home] < others {
			t.Errorf("bound %v: %v in flight, most not at home, %d", bound, v.InFlight, home)
		}
	}
}

func TestAffinityMindsFullCaches(t *testing.T) {
	v := oneVariant(t, 1, 1, 1)
	r := fleet.Request{Session: 5}
	home := sticky(1.25).Pick(v, &r, 0, 0)
	v.Held[home] = 900
	if i := sticky(1.25).Pick(v, &r, 0, 0); i == home {
		t.Error("stuck to a replica whose cache is full")
	}
	v.Held = []int32{900, 900, 900}
	v.InFlight = []int32{2, 1, 2}
	if i := sticky(9).Pick(v, &r, 0, 0); i != 1 {
		t.Errorf("with all caches full picked %d, want the balancer's 1", i)
	}
}
