package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

func placingSpec(t testing.TB, table *fleet.Table) observation.Spec {
	t.Helper()
	s, err := observation.NewSpec(table,
		[]observation.Feature{
			{Kind: observation.KVUse, Scale: []float64{1, 1, 1}},
			{Kind: observation.HostRate, Scale: []float64{6, 6, 6}},
		},
		observation.Feature{Kind: observation.Quality, Scale: []float64{1}},
		observation.Feature{Kind: observation.InFlight, Scale: []float64{20}},
		observation.Feature{Kind: observation.Pace, Scale: []float64{1}},
		observation.Feature{Kind: observation.Neighbours, Scale: []float64{20, 4}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// placing has random weights drawn with the seed.
func placing(t testing.TB, table *fleet.Table, seed uint64) *policy.Placing {
	t.Helper()
	net, err := nn.New(12, 64, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	net.Randomise(rand.New(rand.NewPCG(seed, 0)))
	p, err := (&policy.Maker{Table: table}).Placing("placing@1", placingSpec(t, table), net)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlacingConforms(t *testing.T) {
	for _, table := range []*fleet.Table{conformance.Fleet(0), conformance.Fleet(8), conformance.FleetWithGaps(8)} {
		conformance.Policy(t, table, placing(t, table, 9))
	}
}

// hosts is the conformance fleet with so many hosts, each a copy of the first.
func hosts(t testing.TB, n int) *fleet.Table {
	t.Helper()
	base := conformance.Fleet(0)
	var list []fleet.Host
	var replicas []fleet.Replica
	for h := range n {
		list = append(list, fleet.Host{Name: fmt.Sprintf("gpu%d", h)})
		for _, r := range base.Replicas[:3] {
			r.Name, r.Host = fmt.Sprintf("%d@gpu%d", r.Variant, h), h
			replicas = append(replicas, r)
		}
	}
	table, err := fleet.NewTable(base.Tasks, base.Variants, list, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// busyHosts draws a load for each host, all up.
func busyHosts(table *fleet.Table, seed uint64) *fleet.View {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := idle(table)
	v.Rate = 20 * rng.Float64()
	for i := range table.Replicas {
		v.InFlight[i] = rng.Int32N(20)
		v.Held[i] = v.InFlight[i] * rng.Int32N(500)
		v.Forecasts = append(v.Forecasts, fleet.Forecast{Pace: rng.Float64(), Misses: rng.Float64()})
	}
	return v
}

// Hosts that change places take their loads' scores with them.
func TestPlacingFollowsTheHosts(t *testing.T) {
	table := hosts(t, 4)
	p := placing(t, table, 3)
	scratch := make([]float32, p.Scratch())
	places := map[int]bool{}
	for seed := range uint64(200) {
		v := busyHosts(table, seed)
		order := rand.New(rand.NewPCG(seed, 2)).Perm(4)
		moved := idle(table)
		moved.Rate, moved.Forecasts = v.Rate, slices.Clone(v.Forecasts)
		for h, to := range order {
			for m := range 3 {
				moved.InFlight[3*to+m], moved.Held[3*to+m], moved.Forecasts[3*to+m] = v.InFlight[3*h+m], v.Held[3*h+m], v.Forecasts[3*h+m]
			}
		}
		r := &fleet.Request{Task: int(seed % 4)}
		was, is := p.Place(v, r, scratch), p.Place(moved, r, scratch)
		if is != 3*order[was/3]+was%3 {
			t.Fatalf("seed %d: placed on %d, with hosts moved to %v on %d", seed, was, order, is)
		}
		places[was] = true
	}
	if len(places) < 4 {
		t.Errorf("placed on %v alone: nothing to tell the hosts by", places)
	}
}

// A policy made for four hosts routes for five, and uses the fifth.
func TestPlacingRoutesForAGrownFleet(t *testing.T) {
	p := placing(t, hosts(t, 4), 3)
	grown := hosts(t, 5)
	if err := p.Match(grown); err != nil {
		t.Fatal(err)
	}
	conformance.Policy(t, grown, p)
	scratch := make([]float32, p.Scratch())
	used := false
	for seed := range uint64(200) {
		used = used || p.Place(busyHosts(grown, seed), &fleet.Request{}, scratch) >= 12
	}
	if !used {
		t.Error("the fifth host gets nothing")
	}
}

func TestPlacingDistrustsDamagedWeights(t *testing.T) {
	table := conformance.Fleet(0)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		net, err := nn.New(12, 1)
		if err != nil {
			t.Fatal(err)
		}
		net.Biases[0][0] = float32(bad)
		p, err := (&policy.Maker{Table: table}).Placing("placing@1", placingSpec(t, table), net)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Place(idle(table), &fleet.Request{}, make([]float32, p.Scratch())); got != -1 {
			t.Errorf("value %v: placed on %d, want -1", bad, got)
		}
	}
}

// The Spec says which kind of policy a network makes; the other is refused.
func TestNetworkIsOfItsSpecsKind(t *testing.T) {
	table := conformance.Fleet(0)
	m := &policy.Maker{Table: table}
	rows, err := nn.New(12, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := m.Network("a@1", placingSpec(t, table), rows, policy.Trust{}); err != nil {
		t.Error(err)
	} else if _, ok := p.(*policy.Placing); !ok {
		t.Errorf("a Spec with candidates makes a %T", p)
	}
	if p, err := m.Network("a@1", spec(t, table), linear(t), policy.Trust{}); err != nil {
		t.Error(err)
	} else if _, ok := p.(*policy.Learned); !ok {
		t.Errorf("a Spec without candidates makes a %T", p)
	}
	for want, err := range map[string]error{
		`cannot load policy "a@1": it values replicas, not variants`: second(m.Learned("a@1", placingSpec(t, table), rows, policy.Trust{})),
		`cannot load policy "a@1": it values variants, not replicas`: second(m.Placing("a@1", spec(t, table), linear(t))),
		`cannot load policy "a@1": the network maps 9 inputs to 3 outputs, its observation has 12 numbers for a replica, to be mapped to 1`: second(
			m.Network("a@1", placingSpec(t, table), linear(t), policy.Trust{})),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }
