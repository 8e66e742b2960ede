package env

import (
	"fmt"
	"testing"
	"time"

	"gearshift/env/engine"
	"gearshift/router/profile"
)

// hostScan is what hostHeap does, by looking at every host.
type hostScan struct {
	hosts []*engine.Host
	at    []time.Duration
}

func newHostScan(hosts []*engine.Host) *hostScan {
	q := &hostScan{hosts: hosts, at: make([]time.Duration, len(hosts))}
	for h := range hosts {
		q.fix(h)
	}
	return q
}

func (q *hostScan) fix(host int) {
	q.at[host] = idle
	if at, ok := q.hosts[host].Next(); ok {
		q.at[host] = at
	}
}

func (q *hostScan) first() (host int, at time.Duration) {
	at = idle
	for h, t := range q.at {
		if t < at {
			host, at = h, t
		}
	}
	return host, at
}

// BenchmarkHostOrder advances hosts, each of which decodes without end, from arrival to
// arrival, 1.5 a second for each host, as a Simulator does: the next host found by a
// heap and by a scan, or all that are due found in one scan, out of order. See
// docs/decisions/0035-events-in-a-heap-of-hosts.md.
//
//	go test -run '^$' -bench HostOrder ./env
func BenchmarkHostOrder(b *testing.B) {
	for _, n := range []int{1, 4, 16, 64, 256} {
		gap := time.Duration(float64(time.Second) / 1.5 / float64(n))
		for _, order := range []struct {
			name string
			of   func([]*engine.Host) (advance func(until time.Duration))
		}{{"heap", heaped}, {"scan", scanned}, {"sweep", swept}} {
			b.Run(fmt.Sprintf("%s/%d", order.name, n), func(b *testing.B) {
				advance := order.of(decoding(b, n))
				var until time.Duration
				for b.Loop() {
					until += gap
					advance(until)
				}
			})
		}
	}
}

func heaped(hosts []*engine.Host) func(time.Duration) {
	var laws []Law
	for _, h := range hosts {
		laws = append(laws, h)
	}
	q := newHostHeap(laws)
	for h := range hosts {
		q.fix(h)
	}
	return func(until time.Duration) {
		for at, _ := q.first(); at <= until; at, _ = q.first() {
			h := q.top()
			catchUp(hosts[h], until)
			q.fix(h)
		}
	}
}

func scanned(hosts []*engine.Host) func(time.Duration) {
	q := newHostScan(hosts)
	return func(until time.Duration) {
		for h, at := q.first(); at <= until; h, at = q.first() {
			catchUp(hosts[h], until)
			q.fix(h)
		}
	}
}

func swept(hosts []*engine.Host) func(time.Duration) {
	q := newHostScan(hosts)
	return func(until time.Duration) {
		for h, at := range q.at {
			if at <= until {
				catchUp(hosts[h], until)
				q.fix(h)
			}
		}
	}
}

// catchUp runs the host's events up to that time.
func catchUp(host *engine.Host, until time.Duration) {
	for at, ok := host.Next(); ok && at <= until; at, ok = host.Next() {
		host.Step(nil)
	}
}

// decoding is hosts with three engines, each with a sequence that does not end.
func decoding(b *testing.B, n int) []*engine.Host {
	b.Helper()
	c := engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 2560, MaxSequences: 256, BlockTokens: 16}
	var hosts []*engine.Host
	for h := range n {
		var engines []*engine.Engine
		for v := range 3 {
			// Steps of about 5, 13 and 36 ms, no two hosts at the same moment.
			p := &profile.Profile{Overhead: []float64{5, 13, 36}[v] * (1 + 1e-3*float64(h%37)), Sequence: 0.2}
			e, err := engine.New(c, p, 1<<30)
			if err != nil {
				b.Fatal(err)
			}
			engines = append(engines, e)
		}
		host := engine.NewHost(engines...)
		for v := range engines {
			host.Submit(v, engine.Sequence{ID: uint64(v), PromptTokens: 90, OutputTokens: 1 << 29}, 0)
		}
		hosts = append(hosts, host)
	}
	return hosts
}
