package clients_test

import (
	"testing"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// BenchmarkRun simulates requests of a tier of 30 hosts with memory bandwidth, with choices
// that cost little, and reports how many per second.
//
//	go test -bench Run ./env/clients
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
				r, err := clients.Run(c)
				if err != nil {
					b.Fatal(err)
				}
				n += r.Requests
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// BenchmarkManyClients simulates 20,000 clients on 40 hosts, as a report does at its largest, and
// reports how many requests per second. Each client makes its own knowledge of each model as it
// first asks for it, which takes longer than the rest.
//
//	go test -run '^$' -bench ManyClients ./env/clients
func BenchmarkManyClients(b *testing.B) {
	for _, x := range []struct {
		name    string
		chooser balance.Chooser
	}{
		{"header", balance.Sampled{K: 2, Counter: signals.ByHost}},
		{"polled", balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}},
	} {
		b.Run(x.name, func(b *testing.B) {
			d := clients.Drawing{
				Hosts: 40, Kinds: []float64{2, 4}, Models: 12, Skew: 0.8, Replicas: 160,
				Fastest: 5 * time.Millisecond, Slowest: 40 * time.Millisecond, Spread: 0.5, Seed: 1,
			}
			c, err := d.Draw()
			if err != nil {
				b.Fatal(err)
			}
			c.Clients, c.Chooser, c.Rate, c.Length = 20_000, x.chooser, 0.8*c.Capacity(), 30*time.Second
			c.Timeout, c.PollTakes, c.PollWork, c.Seed = 250*time.Millisecond, time.Millisecond, 100*time.Microsecond, 1
			n := 0
			for b.Loop() {
				r, err := clients.Run(c)
				if err != nil {
					b.Fatal(err)
				}
				n += r.Requests
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
