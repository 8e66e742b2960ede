package router_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/internal/race"
	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
	"gearshift/router/profile"
)

// whole makes a core that forecasts, as the default scenario's does.
func whole(c *router.Config) {
	var v fleet.View
	c.Ledger.View(0, &v)
	c.Balancer, c.Forecaster = leastHarm(v.Table), profile.NewForecaster(profiles(v.Table))
}

// lengths are those of the paper's system.
var lengths = policy.Lengths{Context: 218, Output: 256}

func leastHarm(t *fleet.Table) balance.LeastHarm {
	return balance.LeastHarm{Profiles: profiles(t), Context: lengths.Context, Output: lengths.Output}
}

// profiles are those of the paper's system, by replica.
func profiles(t *fleet.Table) []*profile.Profile {
	sizes := []*profile.Profile{
		{LaunchFloor: 3.24, Weights: 0.636, Growth: 0.003, Token: 0.0035, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
		{LaunchFloor: 6.48, Weights: 6.69, Growth: 0.003, Token: 0.0368, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
		{LaunchFloor: 8.64, Weights: 33.83, Growth: 0.003, Token: 0.186, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
	}
	var list []*profile.Profile
	for _, r := range t.Replicas {
		list = append(list, sizes[r.Variant])
	}
	return list
}

// learned is a policy with the default observation, a rule's advice among it, and
// as many networks as given, of random weights.
func learned(t testing.TB, table *fleet.Table, members, hidden int) *policy.Learned {
	t.Helper()
	spec, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.Advice, Rule: "task-aware"},
		{Kind: observation.TaskOneHot},
		{Kind: observation.InFlight, Scale: []float64{25, 25, 5}},
		{Kind: observation.KVUse, Scale: []float64{1, 1, 1}},
		{Kind: observation.Pace, Scale: []float64{1, 1, 1}},
		{Kind: observation.Harm, Scale: []float64{1, 1, 1}},
		{Kind: observation.SmoothedRate, Scale: []float64{24, 24}},
		{Kind: observation.LogSmoothedRate, Scale: []float64{4, 4}},
		{Kind: observation.Rate, Scale: []float64{24}},
		{Kind: observation.LogRate, Scale: []float64{4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var nets []*nn.MLP
	for i := range members {
		net, err := nn.New(spec.Dim(), hidden, hidden, len(spec.Variants))
		if err != nil {
			t.Fatal(err)
		}
		net.Randomise(rand.New(rand.NewPCG(5, uint64(i))))
		nets = append(nets, net)
	}
	net, err := nn.Stack(nets...)
	if err != nil {
		t.Fatal(err)
	}
	if net, err = net.Favouring(0.03, 3); err != nil {
		t.Fatal(err)
	}
	maker := &policy.Maker{Table: table, Profiles: profiles(table), Lengths: lengths, Balancer: leastHarm(table)}
	p, err := maker.Learned("random@1", spec, net, policy.Trust{Caution: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDecisionAllocatesNothing covers the whole way from arrival to the end of
// the lease.
func TestDecisionAllocatesNothing(t *testing.T) {
	core := newCore(t, 512, whole)
	setPolicy(t, core, learned(t, core.Table(), 4, 64))
	allocatesNothing(t, core)
}

func allocatesNothing(t *testing.T, core *router.Core) {
	t.Helper()
	if race.Enabled {
		t.Skip("the pool of decisions forgets at random under the race detector")
	}
	r := &fleet.Request{PromptTokens: 90}
	var now time.Duration
	if n := testing.AllocsPerRun(500, func() {
		now += time.Millisecond
		choice, err := route(core, r, now)
		if err != nil || choice.Fallback {
			t.Fatal(choice, err)
		}
		choice.Lease.End()
	}); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

// BenchmarkDecision times one decision: rate, view, forecasts, encoding,
// network, balancer, lease and its end, with 12 replicas and 40 requests in flight.
//
//	go test ./router -run '^$' -bench Decision
func BenchmarkDecision(b *testing.B) {
	for _, members := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("%d×25-64-64-3", members), func(b *testing.B) {
			core := newCore(b, 512, whole)
			setPolicy(b, core, learned(b, core.Table(), members, 64))
			measure(b, core)
		})
	}
}

// BenchmarkDecisionInFleet is BenchmarkDecision, with four networks, in fleets of
// so many replicas.
func BenchmarkDecisionInFleet(b *testing.B) {
	for _, hosts := range []int{4, 6, 22, 86, 342} {
		b.Run(fmt.Sprintf("%d", 3*hosts), func(b *testing.B) {
			core := newCore(b, 0, func(c *router.Config) {
				table := conformance.FleetOf(hosts, 512)
				c.Ledger, c.Fallback = fleet.NewLedger(table), static(b, table, 1)
				c.Balancer, c.Forecaster = leastHarm(table), profile.NewForecaster(profiles(table))
			})
			setPolicy(b, core, learned(b, core.Table(), 4, 64))
			measure(b, core)
		})
	}
}

// BenchmarkDecisionsAtOnce is BenchmarkDecision, with four networks, from eight
// goroutines.
func BenchmarkDecisionsAtOnce(b *testing.B) {
	core := newCore(b, 512, whole)
	setPolicy(b, core, learned(b, core.Table(), 4, 64))
	b.SetParallelism(max(1, 8/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	var moments atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		var live [5]router.Choice
		r := &fleet.Request{PromptTokens: 90}
		for i := 0; pb.Next(); i++ {
			r.Task = i % 4
			choice, err := route(core, r, time.Duration(moments.Add(1))*20*time.Millisecond)
			if err != nil || choice.Fallback {
				b.Error(choice, err)
				return
			}
			live[i%len(live)].Lease.End()
			live[i%len(live)] = choice
		}
		for _, choice := range live {
			choice.Lease.End()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkDecisionByPrediction is BenchmarkDecision by the task-aware rule, and by a policy
// that is advised by it, without and with a prediction for each request.
//
//	go test ./router -run '^$' -bench DecisionByPrediction
func BenchmarkDecisionByPrediction(b *testing.B) {
	policies := map[string]func(*router.Core) router.Policy{
		"task-aware": func(core *router.Core) router.Policy {
			m := &policy.Maker{Table: core.Table(), Profiles: profiles(core.Table()), Lengths: lengths, Balancer: leastHarm(core.Table())}
			rule, err := m.Parse("task-aware")
			if err != nil {
				b.Fatal(err)
			}
			return rule
		},
		"learned": func(core *router.Core) router.Policy { return learned(b, core.Table(), 4, 64) },
	}
	rng := rand.New(rand.NewPCG(8, 9))
	predictions := make([]fleet.Prediction, 64)
	for i := range predictions {
		p := &predictions[i]
		p.Known, p.Sure, p.Gains = true, 1, &[fleet.MostPredicted]float32{0, 0.5, 0.5}
		for v := range 3 {
			p.Quality[v] = rng.Float32()
		}
	}
	for _, name := range []string{"task-aware", "learned"} {
		for _, given := range [][]fleet.Prediction{make([]fleet.Prediction, 1), predictions} {
			b.Run(fmt.Sprintf("%s/predicted=%v", name, given[0].Known), func(b *testing.B) {
				core := newCore(b, 512, whole)
				setPolicy(b, core, policies[name](core))
				measure(b, core, given...)
			})
		}
	}
}

// measure reports the median and the 99th percentile of single decisions, in
// microseconds. The requests have the predictions in turn.
func measure(b *testing.B, core *router.Core, predictions ...fleet.Prediction) {
	var live [40]router.Choice
	var now time.Duration
	r := &fleet.Request{PromptTokens: 90}
	decide := func(i int) {
		now += 20 * time.Millisecond
		r.Task = i % 4
		if n := len(predictions); n > 0 {
			r.Predicted = predictions[i%n]
		}
		choice, err := route(core, r, now)
		if err != nil || choice.Fallback {
			b.Fatal(choice, err)
		}
		live[i%len(live)].Lease.End()
		live[i%len(live)] = choice
	}
	for i := range 2 * len(live) {
		decide(i)
	}
	times := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		from := b.Elapsed()
		decide(i)
		if len(times) < cap(times) {
			times = append(times, b.Elapsed()-from)
		}
		i++
	}
	slices.Sort(times)
	micros := func(share float64) float64 {
		return float64(times[int(share*float64(len(times)-1))]) / float64(time.Microsecond)
	}
	b.ReportMetric(micros(0.50), "p50-µs")
	b.ReportMetric(micros(0.99), "p99-µs")
}
