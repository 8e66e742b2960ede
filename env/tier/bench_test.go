package tier_test

import (
	"testing"
	"time"

	"gearshift/env/tier"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// BenchmarkRun simulates requests of a tier of 30 hosts with memory bandwidth, with choices
// that cost little, and reports how many per second.
//
//	go test -bench Run ./env/tier
func BenchmarkRun(b *testing.B) {
	for _, x := range []struct {
		name    string
		chooser balance.Chooser
		clients int
	}{
		{"random", balance.Sampled{K: 1}, 20},
		{"header", balance.Sampled{K: 2, Counter: signals.ByHost}, 1000},
		{"polled", balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}, 1000},
	} {
		b.Run(x.name, func(b *testing.B) {
			c, err := uneven(1).Draw()
			if err != nil {
				b.Fatal(err)
			}
			c.Clients, c.Chooser, c.Rate, c.Length, c.Period = x.clients, x.chooser, 0.6*c.Capacity(), 30*time.Second, time.Second
			n := 0
			for b.Loop() {
				r, err := tier.Run(c)
				if err != nil {
					b.Fatal(err)
				}
				n += r.Requests
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
