package router_test

import (
	"testing"
	"time"

	"gearshift/internal/race"
	"gearshift/router"
	"gearshift/router/fleet"
)

// explained keeps the explanations that an observer gets.
type explained struct {
	values []float32
	why    string
	seen   router.Choice
}

func (x *explained) ObserveExplanation(values []float32, why string) { x.values, x.why = values, why }
func (x *explained) Observe(_ *fleet.View, c router.Choice)          { x.seen = c }

// busy sets the share of each host in use that the ledger's views show.
func busy(core *router.Core, share float32) {
	shares := make([]float32, len(core.Table().Hosts))
	for i := range shares {
		shares[i] = share
	}
	core.Ledger().SetBusy(shares)
}

func TestAClassGetsItsSizeFirstUnderLoad(t *testing.T) {
	core := newCore(t, 1, nil)
	setPolicy(t, core, static(t, core.Table(), 2))
	quality := core.Table().Tasks[0].Quality
	half := &fleet.First{Variant: 0, From: 0.5}
	for _, c := range []struct {
		name    string
		load    float32
		request fleet.Request
		pinned  int
		variant int
		policy  string
	}{
		{"below the load", 0.49, fleet.Request{First: half}, -1, 2, "static:opt-6.7b"},
		{"at the load", 0.5, fleet.Request{First: half}, -1, 0, router.OfClass},
		{"above it", 1, fleet.Request{First: half}, -1, 0, router.OfClass},
		{"of no class that says so", 1, fleet.Request{}, -1, 2, "static:opt-6.7b"},
		{"at any load", 0, fleet.Request{First: &fleet.First{Variant: 1}}, -1, 1, router.OfClass},
		{"named by the client", 1, fleet.Request{First: half}, 1, 1, router.Pinned},
		{"above the quality floor alone", 1, fleet.Request{First: half, MinQuality: quality[1]}, -1, 2, "static:opt-6.7b"},
		{"not of the key", 1, fleet.Request{First: half, Variants: 0b110}, -1, 2, "static:opt-6.7b"},
		{"too small for the prompt", 1, fleet.Request{First: half, Holding: 0b110}, -1, 2, "static:opt-6.7b"},
		{"of replicas that cannot answer", 1, fleet.Request{First: half, Without: core.Table().ReplicasOf(0)}, -1, 2, "static:opt-6.7b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			busy(core, c.load)
			core.Ledger().Arrive(time.Second)
			o := &explained{}
			choice, err := core.Route(c.pinned, &c.request, time.Second, o)
			if err != nil {
				t.Fatal(err)
			}
			defer choice.Lease.End()
			if choice.Variant != c.variant || choice.Policy != c.policy || choice.Fallback || choice.Reason != "" {
				t.Errorf("variant %d by %q (%s), want %d by %q", choice.Variant, choice.Policy, choice.Reason, c.variant, c.policy)
			}
			if of := c.policy == router.OfClass; (o.why == router.WhyClass) != of || choice.Ruled() != (of || c.pinned >= 0) || (choice.Propensity == 0) != choice.Ruled() {
				t.Errorf("explained by %q, ruled %v, propensity %v", o.why, choice.Ruled(), choice.Propensity)
			}
		})
	}
}

// Without room on that size the policy decides, as where the gate sees none.
func TestAClassTakesItsSizeOnlyWithRoom(t *testing.T) {
	core := newCore(t, 1, nil)
	setPolicy(t, core, static(t, core.Table(), 2))
	busy(core, 1)
	r := &fleet.Request{First: &fleet.First{Variant: 0, From: 0.5}}
	for range core.Table().ReplicasOf(0) {
		if c, err := route(core, r, time.Second); err != nil || c.Policy != router.OfClass {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if c, err := route(core, r, time.Second); err != nil || c.Variant != 2 || c.Policy != "static:opt-6.7b" {
		t.Errorf("all places taken: %+v, %v", c, err)
	}
	gate := gated(t, 0, core.Table().ReplicasOf(1)...)
	busy(gate, 1)
	if c, err := route(gate, r, time.Second); err != nil || c.Variant != 1 || c.Policy != "static:opt-1.3b" {
		t.Errorf("no room by the gate: %+v, %v", c, err)
	}
}

// The policy on trial is shown no request that its class decides.
func TestATrialIsNotShownWhatAClassDecides(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, static(t, core.Table(), 2))
	if err := core.Try(static(t, core.Table(), 1), 1); err != nil {
		t.Fatal(err)
	}
	busy(core, 0.6)
	c, err := route(core, &fleet.Request{First: &fleet.First{Variant: 0, From: 0.5}}, time.Second)
	if err != nil || c.Variant != 0 || c.Trial {
		t.Errorf("%+v, %v; want the variant of the class, which is no trial's", c, err)
	}
	report, _ := core.Trial()
	for _, row := range report.Choices[0] {
		for _, n := range row {
			if n != 0 {
				t.Errorf("the trial has counted %v", report.Choices[0])
			}
		}
	}
}

// Take replaces a decision of another caller, such as the simulator's, in the same way, of a variant and of a replica.
func TestADecisionOfAnotherCallerIsReplacedToo(t *testing.T) {
	core := newCore(t, 0, nil)
	table := core.Table()
	l := fleet.NewLedger(table)
	d, err := router.NewDecision(router.Config{Ledger: l, Balancer: picker(func(v *fleet.View, variant int) int { return v.ReplicasOf(variant)[0] })})
	if err != nil {
		t.Fatal(err)
	}
	shares := make([]float32, len(table.Hosts))
	for _, load := range []float32{0.2, 0.8} {
		for i := range shares {
			shares[i] = load
		}
		l.SetBusy(shares)
		r := &fleet.Request{First: &fleet.First{Variant: 1, From: 0.5}}
		want := 2
		if load > 0.5 {
			want = 1
		}
		for name, take := range map[string]func() (router.Choice, error){
			"variant": func() (router.Choice, error) { return d.Take(2, r, 7) },
			"replica": func() (router.Choice, error) { return d.Place(table.ReplicasOf(2)[1], r, 7) },
		} {
			if err := d.Look(r, time.Second, 1, false); err != nil {
				t.Fatal(err)
			}
			c, err := take()
			if err != nil || c.Variant != want || table.Replicas[c.Replica].Variant != want || (c.Policy == router.OfClass) != (want == 1) {
				t.Errorf("%s at load %v: %+v, %v; want variant %d", name, load, c, err, want)
			}
		}
	}
}

func TestAClassesSizeAllocatesNothing(t *testing.T) {
	core := newCore(t, 512, nil)
	setPolicy(t, core, static(t, core.Table(), 2))
	busy(core, 1)
	r := &fleet.Request{First: &fleet.First{Variant: 0, From: 0.5}}
	if n := testing.AllocsPerRun(500, func() {
		c, err := route(core, r, time.Second)
		if err != nil || c.Policy != router.OfClass {
			t.Fatal(c, err)
		}
		c.Lease.End()
	}); n != 0 && !race.Enabled {
		t.Errorf("a decision allocates %v times", n)
	}
}
