package router_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
)

// A replica that views tell to be slow is forecast, judged, picked and begun on as one
// whose profile is that of an engine so many times as slow.
func TestSlowReplicasAreAsSlowProfiles(t *testing.T) {
	table := conformance.Fleet(8)
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 300 {
		slowed, declared := slowFleet(table, rng)
		plain := slowed
		plain.Excess = nil
		r := &fleet.Request{Task: rng.IntN(len(table.Tasks)), PromptTokens: rng.IntN(400)}
		profile.NewForecaster(profiles(table)).Forecast(&slowed, r)
		plain.Forecasts = nil
		profile.NewForecaster(declared).Forecast(&plain, r)
		for i, f := range slowed.Forecasts {
			if want := plain.Forecasts[i]; math.Abs(f.Pace-want.Pace) > 1e-9 || math.Abs(f.Misses-want.Misses) > 1e-9 {
				t.Fatalf("view %d: replica %d is forecast %+v, want %+v", n, i, f, want)
			}
		}
		of := func(v *fleet.View, profiles []*profile.Profile) string {
			said := ""
			for _, b := range []router.Balancer{balance.LeastHarm{}, balance.LeastWork{Profiles: profiles, Context: 218}} {
				for m := range table.Variants {
					said += fmt.Sprint(" ", b.Pick(v, r, m, 1<<63))
				}
			}
			rule := router.AdmissionRule{DeadlineShare: 0.9, KV: 0.9, Output: 250, Profiles: profiles}
			for i := range table.Replicas {
				said += fmt.Sprint(" ", rule.Room(v, r, i))
			}
			maker := &policy.Maker{Table: table, Profiles: profiles, Lengths: policy.Lengths{Context: 218, Output: 256}, Balancer: balance.LeastHarm{}}
			for _, ref := range []string{"slackfit:0.9", "least-work:2,0.1", "priced", "task-aware:0.95,0.2,0.8,0,0"} {
				p, err := maker.Parse(ref)
				if err != nil {
					t.Fatal(err)
				}
				said += fmt.Sprint(" ", ref, p.Decide(v, r, make([]float32, 64)))
			}
			return said
		}
		if got, want := of(&slowed, profiles(table)), of(&plain, declared); got != want {
			t.Fatalf("view %d, excess %.2f, in flight %v:\n%s\nwant\n%s", n, slowed.Excess, slowed.InFlight, got, want)
		}
	}
}

// slowFleet is a view of a busy fleet some of whose replicas are slow, and profiles
// that say so.
func slowFleet(table *fleet.Table, rng *rand.Rand) (fleet.View, []*profile.Profile) {
	l := fleet.NewLedger(table)
	slowed := profiles(table)
	var v fleet.View
	for i := range slowed {
		if rng.IntN(3) == 0 {
			times := 1 + float64(rng.IntN(12))/4 // exact in 32 bits
			l.SlowDown(i, times)
			slowed[i] = slowed[i].Slower(times)
		}
		for range rng.IntN(8) {
			l.Begin(i, 0)
		}
	}
	l.View(0, &v)
	for i, n := range v.InFlight {
		v.Held[i] = n * int32(rng.IntN(300))
	}
	return v, slowed
}
