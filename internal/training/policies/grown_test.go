package policies

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/nn"
)

// pool loads the scenario of docs/scenarios with this number of replicas.
func pool(t *testing.T, replicas string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load("../../../docs/scenarios/pool-" + replicas + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// storedFour stores a network with random weights as a policy of preset quick of the scenario.
func storedFour(t *testing.T, s *scenario.Scenario) *Source {
	t.Helper()
	preset, err := s.Preset("quick")
	if err != nil {
		t.Fatal(err)
	}
	spec := s.Trained(preset).Spec()
	if !spec.Places() {
		t.Fatal("quick of this scenario values no replicas")
	}
	net, err := nn.New(spec.Inputs(), 16, 1)
	if err != nil {
		t.Fatal(err)
	}
	net.Randomise(rand.New(rand.NewPCG(3, 0)))
	source := &Source{Store: &checkpoints.Store{Path: filepath.Join(t.TempDir(), "policies.db")}}
	c := &checkpoints.Checkpoint{Network: net, Meta: checkpoints.Meta{Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash()}}
	if _, _, err := source.Store.Put("four", c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	return source
}

// A policy of four replicas decides in a pool of forty: for each request it takes the network's favourite of the
// replicas in view, also where most of the forty are absent.
func TestPolicyOfFourRoutesForForty(t *testing.T) {
	small, large := pool(t, "4"), pool(t, "40")
	source := storedFour(t, small)
	table := large.ServingTable()
	maker, err := large.Maker(table)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := source.Stored("four", maker)
	if err != nil {
		t.Fatal(err)
	}
	placer := p.(router.Placer)
	balancer, err := large.Balancer()
	if err != nil {
		t.Fatal(err)
	}
	fallback, err := maker.Parse("static:small")
	if err != nil {
		t.Fatal(err)
	}
	for _, present := range []int{40, 20, 4} {
		ledger := fleet.NewLedger(table)
		for i := present; i < 40; i++ {
			ledger.SetUp(i, false)
		}
		core, err := router.New(router.Config{Ledger: ledger, Fallback: fallback, Balancer: balancer, Forecaster: large.Forecaster(), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := core.SetPolicy(p); err != nil {
			t.Fatal(err)
		}
		used := map[int]bool{}
		for i := range 400 {
			now := time.Duration(i) * 10 * time.Millisecond
			r := &fleet.Request{ID: uint64(i), Task: i % 3, PromptTokens: 100, Arrival: now}
			ledger.Arrive(now)
			c, err := core.Route(-1, r, now, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.Policy != "four@1" || c.Fallback || !c.Placed || c.Replica >= present {
				t.Fatalf("%d present: request %d was placed on %d by %s, fallback %v for %q", present, i, c.Replica, c.Policy, c.Fallback, c.Reason)
			}
			used[c.Replica] = true
			if i%7 == 0 {
				c.Lease.End()
			}
		}
		if len(used) < min(present, 4)/2 {
			t.Errorf("%d present: only %v are used", present, used)
		}
	}
	// The favourite has the highest output of the network, which nothing but its row decides.
	var v fleet.View
	ledger := fleet.NewLedger(table)
	ledger.View(0, &v)
	large.Forecaster().Forecast(&v, &fleet.Request{})
	scratch := make([]float32, p.Scratch())
	best := placer.Place(&v, &fleet.Request{}, scratch)
	v.Down[best] = true
	if next := placer.Place(&v, &fleet.Request{}, scratch); table.Replicas[next].Variant != table.Replicas[best].Variant || next == best {
		t.Errorf("an equal replica next to the favourite %d is not the next, but %d", best, next)
	}
}

// A policy of four is refused where it cannot work, with the reason.
func TestPolicyOfFourIsRefusedElsewhere(t *testing.T) {
	source := storedFour(t, pool(t, "4"))
	for want, change := range map[string]func(t *fleet.Table){
		"trained for variants": func(t *fleet.Table) { t.Variants[1].Name = "other" },
		"trained for tasks":    func(t *fleet.Table) { t.Tasks[0].Name = "other" },
	} {
		large := pool(t, "40")
		table := *large.ServingTable()
		table.Variants, table.Tasks = slices.Clone(table.Variants), slices.Clone(table.Tasks)
		change(&table)
		maker, err := large.Maker(&table)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := source.Stored("four", maker); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// In a pool with slots for forty of which four are there, a policy decides as in the pool of four: for each
// request it chooses the same replica.
func TestEmptySlotsChangeNothing(t *testing.T) {
	small, large := pool(t, "4"), pool(t, "40")
	source := storedFour(t, small)
	place := func(s *scenario.Scenario, absent func(l *fleet.Ledger, i int)) (chosen []int) {
		table := s.ServingTable()
		maker, err := s.Maker(table)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := source.Stored("four", maker)
		if err != nil {
			t.Fatal(err)
		}
		balancer, err := s.Balancer()
		if err != nil {
			t.Fatal(err)
		}
		l := fleet.NewLedger(table)
		for i := 4; i < len(table.Replicas); i++ {
			absent(l, i)
		}
		core, err := router.New(router.Config{Ledger: l, Fallback: p, Balancer: balancer, Forecaster: s.Forecaster(), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := core.SetPolicy(p); err != nil {
			t.Fatal(err)
		}
		draw := rand.New(rand.NewPCG(5, 0))
		var leases []fleet.Lease
		now := time.Duration(0)
		for i := range 600 {
			now += time.Duration(draw.IntN(100)) * time.Millisecond
			l.Arrive(now)
			c, err := core.Route(-1, &fleet.Request{ID: uint64(i), Task: draw.IntN(3), PromptTokens: 1 + draw.IntN(500), Arrival: now}, now, nil)
			if err != nil {
				t.Fatal(err)
			}
			chosen, leases = append(chosen, c.Replica), append(leases, c.Lease)
			if draw.IntN(3) > 0 {
				leases[draw.IntN(len(leases))].End()
			}
		}
		return chosen
	}
	want := place(small, nil)
	if kinds := slices.Compact(slices.Sorted(slices.Values(want))); len(kinds) < 2 {
		t.Fatalf("the policy chooses %v alone: nothing to compare", kinds)
	}
	for name, absent := range map[string]func(l *fleet.Ledger, i int){
		"down":       func(l *fleet.Ledger, i int) { l.SetUp(i, false) },
		"not loaded": func(l *fleet.Ledger, i int) { l.Place(i, fleet.Cold) },
		"absent":     func(l *fleet.Ledger, i int) { l.SetPresence(i, fleet.Vacant) },
	} {
		if got := place(large, absent); !slices.Equal(got, want) {
			t.Errorf("%s: with 36 empty slots it chooses %v, without them %v", name, got[:20], want[:20])
		}
	}
}
