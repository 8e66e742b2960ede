package router_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// TestCrowdsSpread routes 1,000 requests that are released at once, over the
// equal replicas of one variant, all idle: each balancer spreads them as it does
// if they come one by one, so the fullest and the emptiest replica differ by no
// more than its bound. A balancer that went by a view of before would send them
// all to the same.
//
// Those that pick the least of all differ by 1. Of power of k choices the fullest
// is within ln ln n/ln k + O(1) of the mean and the emptiest within O(ln n) (Azar
// et al. 1999; Berenbrink et al. 2006), and a random replica (k = 1) is some 3σ
// from it on either side. Affinity without sessions is its balancer, and with all
// in a few sessions within its bound of the least.
func TestCrowdsSpread(t *testing.T) {
	const crowd = 1000
	table := conformance.FleetOf(8, 0)
	profiles := profiles(table)
	work := balance.LeastWork{Profiles: profiles, Context: 218}
	for _, test := range []struct {
		name     string
		balancer router.Balancer
		sessions uint64
		most     int32 // of difference
	}{
		{"smallest-batch", balance.SmallestBatch{}, 0, 1},
		{"smallest-fitting", balance.SmallestFitting{}, 0, 1},
		{"least-work", work, 0, 1},
		{"least-harm", balance.LeastHarm{}, 0, 1},
		{"power-of-two", balance.PowerOfK{K: 2}, 0, 8},
		{"power-of-k:3", balance.PowerOfK{K: 3}, 0, 6},
		{"power-of-k:8, which is all", balance.PowerOfK{K: 8}, 0, 1},
		{"power-of-k:1, which is chance", balance.PowerOfK{K: 1}, 0, 90},
		{"affinity, no sessions", balance.Affinity{Balancer: work, Bound: 1.25}, 0, 1},
		{"affinity, many sessions", balance.Affinity{Balancer: work, Bound: 1.25}, crowd, 32},
		{"affinity, three sessions", balance.Affinity{Balancer: work, Bound: 1.25}, 3, 32},
	} {
		t.Run(test.name, func(t *testing.T) {
			core, err := router.New(router.Config{
				Ledger: fleet.NewLedger(table), Fallback: static(t, table, 1), Balancer: test.balancer,
				Forecaster: profile.NewForecaster(profiles), Seed: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			setPolicy(t, core, static(t, table, 1))
			together(t, crowd, func(i uint64) {
				r := fleet.Request{ID: i, PromptTokens: 100}
				if test.sessions > 0 {
					r.Session = 1 + i%test.sessions
				}
				if _, err := route(core, &r, time.Second); err != nil {
					t.Error(err)
				}
			})
			var v fleet.View
			core.Ledger().View(time.Second, &v)
			var loads []int32
			for _, i := range table.ReplicasOf(1) {
				loads = append(loads, v.InFlight[i])
			}
			difference := slices.Max(loads) - slices.Min(loads)
			t.Logf("in flight %v: they differ by %d", loads, difference)
			if sum := core.Ledger().InFlight(); sum != crowd || difference > test.most {
				t.Errorf("%d in flight, %v: they differ by %d, want at most %d", sum, loads, difference, test.most)
			}
		})
	}
}

// together runs n calls of f, each on a goroutine of its own and released at once.
func together(t *testing.T, n int, f func(i uint64)) {
	t.Helper()
	gate := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range uint64(n) {
		done.Go(func() {
			ready.Done()
			<-gate
			f(i)
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
}
