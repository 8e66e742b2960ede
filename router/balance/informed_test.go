package balance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// evenFleet is a fleet of one variant with so many replicas, each on a host of its own, and a view
// of all of it.
func evenFleet(t testing.TB, replicas int) *fleet.View {
	t.Helper()
	hosts, list := make([]fleet.Host, replicas), make([]fleet.Replica, replicas)
	for i := range hosts {
		hosts[i].Name, list[i].Host = fmt.Sprintf("host%d", i), i
	}
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "model"}}, hosts, list)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet.View{Table: table, InFlight: make([]int32, replicas), Held: make([]int32, replicas), Down: make([]bool, replicas)}
}

func TestInformedIsABalancer(t *testing.T) {
	for _, table := range []*fleet.Table{conformance.Fleet(0), conformance.Fleet(8), conformance.FleetOf(25, 8)} {
		for _, c := range []balance.Chooser{balance.Sampled{K: 1}, balance.Sampled{K: 2}, balance.Sampled{K: 3, Counter: signals.ByWork, Poll: true}} {
			conformance.Balancer(t, table, balance.NewInformed("informed", table, c, nil))
		}
	}
}

// TestInformedChoosesByWhatItHears: of two replicas the one that says that it has less is
// chosen, unless it is down.
func TestInformedChoosesByWhatItHears(t *testing.T) {
	v := evenFleet(t, 2)
	b := balance.NewInformed("informed", v.Table, balance.Sampled{K: 2}, nil)
	b.Hear(0, signals.Counters{Model: 7}, balance.WithAnswer, time.Second)
	b.Hear(1, signals.Counters{Model: 3}, balance.WithAnswer, time.Second)
	for random := range uint64(50) {
		if i := b.Pick(v, &fleet.Request{}, 0, random<<58); i != 1 {
			t.Fatalf("picked %d, which says that it has more", i)
		}
	}
	v.Down[1] = true
	if i := b.Pick(v, &fleet.Request{}, 0, 5); i != 0 {
		t.Errorf("picked %d; only replica 0 is up", i)
	}
	v.Down[0] = true
	if i := b.Pick(v, &fleet.Request{}, 0, 5); i != -1 {
		t.Errorf("picked %d of none that is up", i)
	}
}

// TestInformedChoosesAmongThePolled: what was polled for a request is what it chooses among,
// and what was polled a second ago is not.
func TestInformedChoosesAmongThePolled(t *testing.T) {
	v := evenFleet(t, 50)
	v.Now = time.Minute
	b := balance.NewInformed("informed", v.Table, balance.Sampled{K: 2, Poll: true}, nil)
	chosen := func(wait time.Duration, random uint64) (in bool) {
		now := v.Now
		polled := b.Polled(0, now, random, nil)
		if len(polled) != 2 {
			t.Fatalf("polled %v, want two", polled)
		}
		for n, i := range polled {
			b.Hear(i, signals.Counters{Model: 1 + n}, balance.Polled, now)
		}
		if again := b.Polled(0, now, random, polled); len(again) != 2 {
			t.Fatalf("polled %v and then %v", polled, again)
		}
		v.Now += wait
		return b.Pick(v, &fleet.Request{}, 0, random+1) == polled[0]
	}
	for random := range uint64(50) {
		v.Now += time.Second
		if !chosen(time.Millisecond, random<<50) {
			t.Fatal("the replica that was polled and has less was not picked")
		}
	}
	hits := 0
	for random := range uint64(50) {
		v.Now += time.Second
		if chosen(time.Second, random<<50) {
			hits++
		}
	}
	if hits > 10 {
		t.Errorf("%d of 50 picks followed a poll of a second before", hits)
	}
}

func TestInformedDoesNotPollWhatIsDown(t *testing.T) {
	v := evenFleet(t, 4)
	v.Down[0], v.Down[2] = true, true
	b := balance.NewInformed("informed", v.Table, balance.Sampled{K: 2, Poll: true}, nil)
	b.Pick(v, &fleet.Request{}, 0, 1)
	for random := range uint64(100) {
		for _, i := range b.Polled(0, time.Second, random<<57, nil) {
			if v.Down[i] {
				t.Fatalf("replica %d is down and polled", i)
			}
		}
	}
}

// TestInformedServesEveryRule: whatever a rule remembers, what it picks is available, with
// samples of a large fleet as with the whole of a small one, and a pick allocates nothing.
func TestInformedServesEveryRule(t *testing.T) {
	for _, x := range choosers() {
		for _, table := range []*fleet.Table{conformance.Fleet(8), conformance.FleetOf(25, 8)} {
			random := rand.New(rand.NewPCG(6, 7))
			b := balance.NewInformed(x.name, table, x.chooser, nil)
			v := &fleet.View{Table: table, InFlight: make([]int32, len(table.Replicas)), Held: make([]int32, len(table.Replicas)), Down: make([]bool, len(table.Replicas))}
			room := make([]int, 0, 64)
			for n := range 500 {
				v.Now = time.Duration(n) * time.Millisecond
				for i := range v.Down {
					v.Down[i], v.InFlight[i] = random.IntN(3) == 0, int32(random.IntN(9))
				}
				v.Whole()
				if random.IntN(2) == 0 {
					v.Sample(table, random.Uint64())
				}
				variant := random.IntN(len(table.Variants))
				of := table.ReplicasOf(variant)[0]
				for _, i := range b.Polled(of, v.Now, random.Uint64(), room[:0]) {
					b.Hear(i, signals.Counters{Model: random.IntN(9), Host: random.IntN(9), Work: time.Duration(random.IntN(9)) * time.Millisecond, Rate: 9, Use: random.Float64()}, balance.Polled, v.Now)
				}
				i := b.Pick(v, &fleet.Request{}, variant, random.Uint64())
				if i == -1 && !v.VariantAvailable(variant) {
					continue
				}
				if i < 0 || !v.Available(i) || !slices.Contains(v.ReplicasOf(variant), i) {
					t.Fatalf("%s: picked %d", x.name, i)
				}
				for _, i := range b.Probed(of, v.Now, random.Uint64(), room[:0]) {
					b.Hear(i, signals.Counters{Model: random.IntN(9)}, balance.Probed, v.Now)
				}
				b.Answered(i, time.Millisecond, v.Now)
			}
			clear(v.Down)
			if n := testing.AllocsPerRun(100, func() {
				b.Polled(0, v.Now, 5, room[:0])
				b.Pick(v, &fleet.Request{}, 0, 5)
				b.Probed(0, v.Now, 5, room[:0])
				b.Answered(0, time.Millisecond, v.Now)
			}); n > 0 {
				t.Errorf("%s: a pick allocates %v times", x.name, n)
			}
		}
	}
}

// TestInformedIsShared: goroutines pick, hear and learn at once. The race detector says the
// rest.
func TestInformedIsShared(t *testing.T) {
	v := evenFleet(t, 12)
	b := balance.NewInformed("informed", v.Table, balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}, nil)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := range 200 {
				random := uint64(g*200+n) << 48
				for _, i := range b.Polled(0, 0, random, nil) {
					b.Hear(i, signals.Counters{Work: time.Duration(n)}, balance.Polled, 0)
				}
				i := b.Pick(v, &fleet.Request{}, 0, random)
				if i < 0 || i >= 12 {
					t.Errorf("picked %d", i)
				}
				b.Probed(0, 0, random, nil)
				b.Answered(i, time.Millisecond, 0)
			}
		})
	}
	all.Wait()
}

// BenchmarkInformed times a choice by what is known, and one between two replicas by what is
// in flight, which serving had before, in the same run.
//
//	go test ./router/balance -run '^$' -bench Informed
func BenchmarkInformed(b *testing.B) {
	for _, replicas := range []int{12, 1024} {
		v := evenFleet(b, replicas)
		for i := range v.InFlight {
			v.InFlight[i] = int32(i % 7)
		}
		pick := func(name string, by balance.Balancer) {
			b.Run(fmt.Sprintf("%s/%d", name, replicas), func(b *testing.B) {
				b.ReportAllocs()
				r := &fleet.Request{}
				for n := range b.N {
					v.Now = time.Duration(n) * time.Millisecond
					by.Pick(v, r, 0, uint64(n)*0x9e3779b97f4a7c15)
				}
			})
		}
		pick("power-of-two", balance.PowerOfK{K: 2})
		for _, x := range choosers() {
			informed := balance.NewInformed(x.name, v.Table, x.chooser, nil)
			for i := range replicas {
				informed.Hear(i, signals.Counters{Model: i % 5, Host: i % 7, Work: time.Duration(i%11) * time.Millisecond}, balance.WithAnswer, 0)
			}
			pick(x.name, informed)
		}
	}
}
