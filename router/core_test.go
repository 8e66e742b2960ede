package router_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

// decider is a policy made of a function.
type decider struct {
	name   string
	decide func(v *fleet.View) int
}

func (d decider) Name() string { return d.name }
func (d decider) Scratch() int { return 3 }
func (d decider) Decide(v *fleet.View, _ *fleet.Request, scratch []float32) int {
	scratch[2] = 1 // the scratch has the length asked for
	return d.decide(v)
}

func always(variant int) router.Policy {
	return decider{"always", func(*fleet.View) int { return variant }}
}

// picker is a balancer made of a function.
type picker func(v *fleet.View, variant int) int

func (picker) Name() string { return "picker" }
func (p picker) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	return p(v, variant)
}

// static is the paper fleet's rule for a variant: the tests' usual fallback.
func static(t testing.TB, table *fleet.Table, variant int) *policy.Static {
	t.Helper()
	p, err := policy.NewStatic(table, variant)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newCore falls back to the middle variant and balances by the smallest batch,
// unless change says otherwise.
func newCore(t testing.TB, limit int, change func(*router.Config)) *router.Core {
	t.Helper()
	table := conformance.Fleet(limit)
	config := router.Config{
		Ledger:   fleet.NewLedger(table),
		Fallback: static(t, table, 1),
		Balancer: balance.SmallestBatch{},
		Seed:     1,
	}
	if change != nil {
		change(&config)
	}
	core, err := router.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return core
}

func setPolicy(t testing.TB, core *router.Core, p router.Policy) {
	t.Helper()
	if err := core.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
}

// route notes a request's arrival and has the policy decide it.
func route(core *router.Core, r *fleet.Request, now time.Duration) (router.Choice, error) {
	core.Ledger().Arrive(now)
	return core.Route(-1, r, now, nil)
}

func TestRouteTakesAndGivesBackAPlace(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, static(t, core.Table(), 2))
	first, err := route(core, &fleet.Request{}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if first.Variant != 2 || core.Table().Replicas[first.Replica].Variant != 2 {
		t.Errorf("variant %d on replica %d, want variant 2", first.Variant, first.Replica)
	}
	if first.Policy != "static:opt-6.7b" || first.Fallback || first.Reason != "" {
		t.Errorf("chosen by %q, fallback %v (%s)", first.Policy, first.Fallback, first.Reason)
	}
	second, err := route(core, &fleet.Request{}, time.Second)
	if err != nil || second.Replica == first.Replica {
		t.Errorf("the second request is on replica %d as the first is (%v)", second.Replica, err)
	}
	if n := core.Ledger().InFlight(); n != 2 {
		t.Errorf("%d in flight, want 2", n)
	}
	if !first.Lease.End() || first.Lease.End() || !second.Lease.End() {
		t.Error("a lease must end exactly once")
	}
	if n := core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight after the leases ended", n)
	}
}

// notes keeps what an observer was shown.
type notes struct {
	inFlight []int32
	choice   router.Choice
}

func (n *notes) Observe(v *fleet.View, c router.Choice) {
	n.inFlight, n.choice = slices.Clone(v.InFlight), c
}

func TestAnObserverSeesTheViewOfTheChoice(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, static(t, core.Table(), 2))
	var seen notes
	for i := range 2 {
		choice, err := core.Route(-1, &fleet.Request{}, 0, &seen)
		if err != nil {
			t.Fatal(err)
		}
		var sum int32
		for _, n := range seen.inFlight {
			sum += n
		}
		if int(sum) != i || seen.choice != choice {
			t.Errorf("request %d: %d in flight, %+v; want %d before it, %+v", i, sum, seen.choice, i, choice)
		}
	}
	if choice, err := core.Route(0, &fleet.Request{}, 0, nil); err != nil || choice.Policy != router.Pinned {
		t.Errorf("a pinned variant without an observer: %+v, %v", choice, err)
	}
	if _, err := core.Route(3, &fleet.Request{}, 0, nil); !errors.Is(err, router.ErrUnknownVariant) {
		t.Errorf("a variant beyond the table: %v", err)
	}
}

func TestErrors(t *testing.T) {
	core := newCore(t, 1, nil)
	ledger, table := core.Ledger(), core.Table()
	free := func() error { _, err := route(core, &fleet.Request{}, 0); return err }
	pinned := func(m int) error { _, err := core.Route(m, &fleet.Request{}, 0, nil); return err }
	want := func(got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("error %v, want %v", got, want)
		}
	}
	_, err := route(core, &fleet.Request{Task: 4}, 0)
	want(err, router.ErrUnknownTask)
	_, err = route(core, &fleet.Request{Task: -1}, 0)
	want(err, router.ErrUnknownTask)
	want(pinned(3), router.ErrUnknownVariant)

	for range table.ReplicasOf(2) {
		want(pinned(2), nil)
	}
	want(pinned(2), router.ErrSaturated)
	for range 8 { // the other variants' places
		want(free(), nil)
	}
	want(free(), router.ErrSaturated)
	for i := range table.Replicas {
		if table.Replicas[i].Variant == 2 {
			ledger.SetUp(i, false)
		}
	}
	want(pinned(2), router.ErrNoReplica)
	want(free(), router.ErrSaturated)
	for i := range table.Replicas {
		ledger.SetUp(i, false)
	}
	want(free(), router.ErrNoReplica)
}

func TestPinned(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, always(0))
	choice, err := core.Route(2, &fleet.Request{}, 0, nil)
	if err != nil || choice.Variant != 2 || choice.Policy != router.Pinned || choice.Fallback {
		t.Errorf("pinned to 2: %+v, %v", choice, err)
	}
}

func TestFallback(t *testing.T) {
	for _, test := range []struct {
		policy router.Policy
		reason string
	}{
		{nil, router.ReasonMissing},
		{always(-1), router.ReasonNoChoice},
		{always(-2), router.ReasonOutOfRange},
		{always(3), router.ReasonOutOfRange},
		{always(2), router.ReasonUnavailable}, // the test takes it down
		{decider{"broken", func(v *fleet.View) int { return int(v.InFlight[99]) }}, router.ReasonPanic},
	} {
		var panics []any
		core := newCore(t, 0, func(c *router.Config) {
			c.OnPanic = func(name string, value any) { panics = append(panics, name, value) }
		})
		setPolicy(t, core, test.policy)
		for _, i := range core.Table().ReplicasOf(2) {
			core.Ledger().SetUp(i, false)
		}
		choice, err := route(core, &fleet.Request{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !choice.Fallback || choice.Reason != test.reason || choice.Variant != 1 || choice.Policy != "static:opt-1.3b" {
			t.Errorf("want a fallback for %q, got %+v", test.reason, choice)
		}
		if test.reason == router.ReasonPanic && (len(panics) != 2 || panics[0] != "broken") {
			t.Errorf("reported panics: %v", panics)
		}
		choice.Lease.End()
	}
}

func TestFallbackThatFails(t *testing.T) {
	core := newCore(t, 0, func(c *router.Config) {
		c.Fallback = decider{"broken", func(*fleet.View) int { panic("broken") }}
	})
	setPolicy(t, core, always(7))
	for _, i := range core.Table().ReplicasOf(0) {
		core.Ledger().SetUp(i, false)
	}
	choice, err := route(core, &fleet.Request{}, 0)
	if err != nil || choice.Variant != 1 || choice.Policy != router.LastResort || choice.Reason != router.ReasonOutOfRange {
		t.Errorf("want the first available variant as the last resort: %+v, %v", choice, err)
	}
}

func TestBalancerThatFails(t *testing.T) {
	for name, pick := range map[string]picker{
		"none":             func(*fleet.View, int) int { return -1 },
		"out of range":     func(*fleet.View, int) int { return 99 },
		"of another model": func(*fleet.View, int) int { return 0 },
		"down":             func(*fleet.View, int) int { return 2 },
		"panic":            func(*fleet.View, int) int { panic("broken") },
	} {
		core := newCore(t, 0, func(c *router.Config) { c.Balancer = pick })
		setPolicy(t, core, always(2))
		core.Ledger().SetUp(2, false)
		for range 4 { // replicas 5, 8 and 11 in turn: each time the emptiest
			choice, err := route(core, &fleet.Request{}, 0)
			if err != nil || choice.Variant != 2 || !choice.Fallback || choice.Reason != router.ReasonBalancer {
				t.Errorf("%s: %+v, %v", name, choice, err)
			}
		}
		var v fleet.View
		core.Ledger().View(0, &v)
		if v.InFlight[5] != 2 || v.InFlight[8] != 1 || v.InFlight[11] != 1 {
			t.Errorf("%s: in flight %v", name, v.InFlight)
		}
	}
}

// TestReplicaLostBetweenViewAndLease takes the chosen replica down while the
// balancer picks it: the Core must look again and find another.
func TestReplicaLostBetweenViewAndLease(t *testing.T) {
	var core *router.Core
	lost := 0
	core = newCore(t, 0, func(c *router.Config) {
		c.Balancer = picker(func(v *fleet.View, variant int) int {
			for _, i := range v.Table.ReplicasOf(variant) {
				if v.Available(i) {
					if lost < 3 {
						lost++
						core.Ledger().SetUp(i, false)
					}
					return i
				}
			}
			return -1
		})
	})
	setPolicy(t, core, always(2))
	choice, err := route(core, &fleet.Request{}, 0)
	if err != nil || choice.Replica != 11 || choice.Fallback {
		t.Errorf("want replica 11, the one left: %+v, %v", choice, err)
	}
}

// TestLargeFleet fills a fleet of which each decision sees a part: no request is
// refused while there is a place, wherever it is.
func TestLargeFleet(t *testing.T) {
	const hosts, limit = 30, 2
	core := newCore(t, 0, func(c *router.Config) {
		table := conformance.FleetOf(hosts, limit)
		c.Ledger, c.Fallback = fleet.NewLedger(table), static(t, table, 1)
	})
	setPolicy(t, core, static(t, core.Table(), 2))
	for i := range 3 * hosts * limit {
		if _, err := route(core, &fleet.Request{}, time.Duration(i)); err != nil {
			t.Fatalf("request %d of %d: %v", i, 3*hosts*limit, err)
		}
	}
	if _, err := route(core, &fleet.Request{}, time.Hour); !errors.Is(err, router.ErrSaturated) {
		t.Errorf("a request to a full fleet: %v", err)
	}
}

func TestSetPolicy(t *testing.T) {
	core := newCore(t, 0, nil)
	if core.PolicyName() != "static:opt-1.3b" {
		t.Errorf("without a policy %q is in charge", core.PolicyName())
	}
	setPolicy(t, core, always(0))
	other, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "host"}},
		[]fleet.Replica{{Variant: 0}, {Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := observation.NewSpec(other, []observation.Feature{{Kind: observation.TaskOneHot}})
	if err != nil {
		t.Fatal(err)
	}
	net, err := nn.New(1, 2)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := (&policy.Maker{Table: other}).Learned("other@1", spec, net, policy.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	want := `cannot use policy "other@1": the policy was trained for variants [small large], the scenario has [opt-125m opt-1.3b opt-6.7b]`
	if err := core.SetPolicy(stranger); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if core.PolicyName() != "always" {
		t.Errorf("after a refusal %q is in charge", core.PolicyName())
	}
	_, err = router.New(router.Config{Ledger: fleet.NewLedger(core.Table()), Fallback: stranger, Balancer: balance.PowerOfK{K: 2}})
	if err == nil || !strings.Contains(err.Error(), "fallback policy") {
		t.Errorf("a fallback for another fleet: error %v", err)
	}
	if _, err := router.New(router.Config{Ledger: fleet.NewLedger(other)}); err == nil {
		t.Error("a router without fallback and balancer is made")
	}
}

// TestSameSeedSameChoices repeats a history of arrivals and ends.
func TestSameSeedSameChoices(t *testing.T) {
	history := func(seed uint64) (replicas []int) {
		core := newCore(t, 0, func(c *router.Config) { c.Seed, c.Balancer = seed, balance.PowerOfK{K: 2} })
		rng := rand.New(rand.NewPCG(3, 4))
		var leases []fleet.Lease
		for i := range 500 {
			choice, err := route(core, &fleet.Request{Task: i % 4}, time.Duration(i))
			if err != nil {
				t.Fatal(err)
			}
			replicas = append(replicas, choice.Replica)
			leases = append(leases, choice.Lease)
			leases[rng.IntN(len(leases))].End()
		}
		return replicas
	}
	a, b, c := history(1), history(1), history(2)
	same := 0
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("choice %d differs between two runs of one seed", i)
		}
		if a[i] == c[i] {
			same++
		}
	}
	if same == len(a) {
		t.Error("another seed makes the same choices: it is not used")
	}
}

// trained marks a policy as trained on forecasts.
type trained struct{ router.Policy }

func (trained) Doubtable() {}

// The fallback decides while a policy that was trained on forecasts is doubted; it stays in charge. A
// rule is not doubted.
func TestDoubtedPolicies(t *testing.T) {
	core := newCore(t, 0, nil)
	route := func() router.Choice {
		choice, err := core.Route(-1, &fleet.Request{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return choice
	}
	if err := core.SetPolicy(trained{always(2)}); err != nil {
		t.Fatal(err)
	}
	if c := route(); c.Variant != 2 || core.Doubted() {
		t.Errorf("%+v", c)
	}
	core.Doubt(true)
	if c := route(); c.Variant != 1 || !c.Fallback || c.Reason != router.ReasonDoubted || !core.Doubted() || core.PolicyName() != "always" {
		t.Errorf("doubted: %+v", c)
	}
	if err := core.SetPolicy(always(2)); err != nil {
		t.Fatal(err)
	}
	if c := route(); c.Variant != 2 || core.Doubted() {
		t.Errorf("a rule: %+v", c)
	}
	if err := core.SetPolicy(trained{always(2)}); err != nil {
		t.Fatal(err)
	}
	spared := newCore(t, 0, func(c *router.Config) { c.Spare = always(0) })
	if err := spared.SetPolicy(trained{always(2)}); err != nil {
		t.Fatal(err)
	}
	spared.Doubt(true)
	if c, err := spared.Route(-1, &fleet.Request{}, 0, nil); err != nil || c.Variant != 0 || c.Reason != router.ReasonDoubted {
		t.Errorf("with a spare: %+v, %v", c, err)
	}
	core.Doubt(false)
	if c := route(); c.Variant != 2 || c.Fallback {
		t.Errorf("trusted again: %+v", c)
	}
}
