package balance_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/signals"
)

// TestPrequalSharesWhatAHostSays: what a client hears of a host as it asks for one model counts as it
// chooses for another one that is there, if the pool is shared, and not otherwise; a replica that may
// not be chosen is not.
func TestPrequalSharesWhatAHostSays(t *testing.T) {
	for _, shared := range []bool{false, true} {
		c := balance.Prequal{Pool: 16, Least: 1, Age: time.Hour, Reuse: 1000, Quantile: 1, Requests: signals.ByHost, Drain: true, Shared: shared}
		random, idle := rand.New(rand.NewPCG(1, 2)), 0
		const clients = 200
		for range clients {
			client := balance.NewClient(c, 6)
			// Model a is on the hosts 0 to 4, model b on 5, 3 and 1, in that order.
			a, b := client.Knowledge(&balance.Replicas{Hosts: []int{0, 1, 2, 3, 4}}), client.Knowledge(&balance.Replicas{Hosts: []int{5, 3, 1}})
			for i, work := range []time.Duration{20, 20, 20, 1, 20} { // host 3 has the least to do
				a.Hear(i, signals.Counters{Host: 1, Work: work * time.Millisecond, Cores: 1}, balance.Probed, 0)
			}
			b.Restrict()
			b.Allow(1)
			b.Allow(2)
			switch c.Choose(b, nil, time.Second, random) {
			case 0:
				t.Fatal("a replica that is down is chosen")
			case 1:
				idle++
			}
		}
		if shared && idle < clients || !shared && (idle < clients/3 || idle > clients*2/3) {
			t.Errorf("shared %v: the host with the least to do is chosen %d of %d times; want all if it is, else half", shared, idle, clients)
		}
	}
}
