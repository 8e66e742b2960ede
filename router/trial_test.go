package router_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
)

// named is a policy under another name.
type named struct {
	router.Policy
	name string
}

func (n named) Name() string { return n.name }

// ask routes n requests, with IDs from 1 on, and ends them. It returns which
// requests the policy of the name decided.
func ask(t *testing.T, core *router.Core, n int, by string) (decided []uint64) {
	t.Helper()
	for id := range uint64(n) {
		r := &fleet.Request{ID: id + 1, Task: int(id) % 4, PromptTokens: 90}
		choice, err := route(core, r, time.Duration(id)*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if choice.Policy == by {
			decided = append(decided, r.ID)
		}
		choice.Lease.End()
	}
	return decided
}

func TestShadowDecidesAndDoesNotRoute(t *testing.T) {
	core := newCore(t, 0, whole)
	setPolicy(t, core, always(0))
	if _, ok := core.Trial(); ok {
		t.Error("there is a trial from the start")
	}
	if err := core.Try(named{always(2), "next@2"}, 0); err != nil {
		t.Fatal(err)
	}
	if decided := ask(t, core, 100, "next@2"); len(decided) != 0 {
		t.Errorf("the shadow decided %d requests", len(decided))
	}
	if _, err := core.Route(1, &fleet.Request{}, 0, nil); err != nil {
		t.Fatal(err)
	}
	trial, ok := core.Trial()
	if !ok || trial.Policy != "next@2" || trial.Share != 0 {
		t.Fatalf("%+v, %v", trial, ok)
	}
	for task, rows := range trial.Choices {
		for charge, row := range rows {
			for theirs, n := range row {
				if want := uint64(25); (charge == 0 && theirs == 2) != (n == want) || n != 0 && n != want {
					t.Errorf("task %d, %d and %d: %d choices", task, charge, theirs, n)
				}
			}
		}
	}
	// On an idle fleet the largest answers in time, and better.
	e := trial.Expected
	if e.Requests != 100 || e.Difference <= 0 || math.Abs(e.Trial-e.Charge-e.Difference) > 1e-5 || e.Error <= 0 || e.Error > e.Difference {
		t.Errorf("expected %+v", e)
	}
}

// A canary decides its share, evenly over IDs in a row, and the same requests
// each time; a larger share adds to them; another policy has others.
func TestCanaryShare(t *testing.T) {
	const requests = 20000
	share := func(name string, share float64) []uint64 {
		core := newCore(t, 0, nil)
		setPolicy(t, core, always(0))
		if err := core.Try(named{always(2), name}, share); err != nil {
			t.Fatal(err)
		}
		return ask(t, core, requests, name)
	}
	for _, want := range []float64{0.01, 0.1, 0.5} {
		got := share("next@2", want)
		sigma := math.Sqrt(requests * want * (1 - want))
		if off := math.Abs(float64(len(got)) - want*requests); off > 4*sigma {
			t.Errorf("%d of %d requests for a share of %v", len(got), requests, want)
		}
		if !slices.Equal(got, share("next@2", want)) {
			t.Errorf("a share of %v is of other requests the second time", want)
		}
		// No stretch of a tenth of the requests is left out or overfull.
		tenth := make([]int, 10)
		for _, id := range got {
			tenth[(id-1)*10/requests]++
		}
		for i, n := range tenth {
			if off := math.Abs(float64(n) - want*requests/10); off > 5*sigma/math.Sqrt(10) {
				t.Errorf("share %v: %d requests of the %dth tenth", want, n, i)
			}
		}
	}
	small, large := share("next@2", 0.1), share("next@2", 0.5)
	for _, id := range small {
		if !slices.Contains(large, id) {
			t.Fatalf("request %d is in a tenth of them, and not in a half", id)
		}
	}
	if slices.Equal(small, share("next@3", 0.1)) {
		t.Error("another policy is tried on the same requests")
	}
	if n := len(share("next@2", 1)); n != requests {
		t.Errorf("%d of %d requests for a share of 1", n, requests)
	}
}

// Whatever a trial does, the policy in charge has decided.
func TestPropensityIsTheShareWhereChoicesDiffer(t *testing.T) {
	for _, c := range []struct {
		trial, variant int
		want           float64
	}{{0, 0, 1}, {2, 0, 0.75}, {2, 2, 0.25}} {
		core := newCore(t, 0, nil)
		setPolicy(t, core, always(0))
		if err := core.Try(named{always(c.trial), "next@2"}, 0.25); err != nil {
			t.Fatal(err)
		}
		seen := false
		for id := range uint64(100) {
			choice, err := route(core, &fleet.Request{ID: id}, 0)
			if err != nil {
				t.Fatal(err)
			}
			choice.Lease.End()
			if choice.Variant != c.variant {
				continue
			}
			if seen = true; choice.Propensity != c.want {
				t.Fatalf("trial of %d: %d with propensity %v, want %v", c.trial, c.variant, choice.Propensity, c.want)
			}
		}
		if !seen {
			t.Errorf("trial of %d: %d was never chosen", c.trial, c.variant)
		}
	}
	if choice, err := newCore(t, 0, nil).Route(1, &fleet.Request{}, 0, nil); err != nil || choice.Propensity != 0 {
		t.Errorf("pinned: propensity %v, %v", choice.Propensity, err)
	}
}

func TestTrialHarmsNoRequest(t *testing.T) {
	for reason, p := range map[string]router.Policy{
		router.ReasonPanic:       decider{"", func(*fleet.View) int { panic("broken") }},
		router.ReasonNoChoice:    always(-1),
		router.ReasonOutOfRange:  always(7),
		router.ReasonUnavailable: placer(func(*fleet.View) int { return 0 }), // which the test takes down
	} {
		panics := 0
		core := newCore(t, 0, func(c *router.Config) { c.OnPanic = func(string, any) { panics++ } })
		core.Ledger().SetUp(0, false)
		setPolicy(t, core, always(2))
		if err := core.Try(named2(p, "bad@1"), 1); err != nil {
			t.Fatal(err)
		}
		for id := range uint64(50) {
			choice, err := route(core, &fleet.Request{ID: id}, 0)
			if err != nil || choice.Variant != 2 || choice.Policy != "always" || choice.Fallback || !choice.Trial {
				t.Fatalf("%s: %+v, %v", reason, choice, err)
			}
		}
		trial, _ := core.Trial()
		if trial.Faults[reason] != 50 {
			t.Errorf("%s: faults %v", reason, trial.Faults)
		}
		if want := map[bool]int{true: 1}[reason == router.ReasonPanic]; panics != want {
			t.Errorf("%s: %d panics reported, want %d", reason, panics, want)
		}
	}
}

// named2 renames a policy, and lets it place if it can.
func named2(p router.Policy, name string) router.Policy {
	if q, ok := p.(placer); ok {
		return struct {
			router.Policy
			router.Placer
		}{named{p, name}, q}
	}
	return named{p, name}
}

// A trial may route where nothing is in charge, or where what is fails.
func TestTrialBesideAFallback(t *testing.T) {
	core := newCore(t, 0, nil)
	if err := core.Try(named{always(2), "next@2"}, 1); err != nil {
		t.Fatal(err)
	}
	choice, err := route(core, &fleet.Request{}, 0)
	if err != nil || choice.Policy != "next@2" || choice.Variant != 2 || choice.Fallback {
		t.Errorf("%+v, %v", choice, err)
	}
	trial, _ := core.Trial()
	if trial.Choices[0][1][2] != 1 {
		t.Errorf("compared with the fallback: %v", trial.Choices)
	}
}

func TestTrialIsRefused(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, always(0))
	for _, share := range []float64{-0.1, 1.1, math.NaN()} {
		if err := core.Try(always(1), share); err == nil || !strings.Contains(err.Error(), "is not between 0 and 1") {
			t.Errorf("share %v: error %v", share, err)
		}
	}
	if err := core.Try(misfit{}, 0); err == nil || err.Error() != `cannot try policy "misfit": made for another fleet` {
		t.Errorf("error %v", err)
	}
	if _, ok := core.Trial(); ok || core.EndTrial() {
		t.Error("a refused policy is on trial")
	}
	if err := core.Promote(); !errors.Is(err, router.ErrNoTrial) {
		t.Errorf("error %v", err)
	}
	if err := core.Rollback(); !errors.Is(err, router.ErrNoEarlier) {
		t.Errorf("error %v", err)
	}
}

// misfit is made for another fleet.
type misfit struct{ decider }

func (misfit) Name() string             { return "misfit" }
func (misfit) Match(*fleet.Table) error { return errors.New("made for another fleet") }

func TestPromoteAndRollback(t *testing.T) {
	core := newCore(t, 0, nil)
	setPolicy(t, core, named{always(0), "old@1"})
	try := func(name string, variant int) {
		t.Helper()
		if err := core.Try(named{always(variant), name}, 0.5); err != nil {
			t.Fatal(err)
		}
	}
	inCharge := func(want, earlier string) {
		t.Helper()
		if core.PolicyName() != want {
			t.Errorf("%s is in charge, want %s", core.PolicyName(), want)
		}
		if name, _ := core.Earlier(); name != earlier {
			t.Errorf("%q was before, want %q", name, earlier)
		}
	}
	try("new@2", 2)
	if err := core.Promote(); err != nil {
		t.Fatal(err)
	}
	inCharge("new@2", "old@1")
	if _, ok := core.Trial(); ok {
		t.Error("the trial goes on after the promotion")
	}
	if decided := ask(t, core, 10, "new@2"); len(decided) != 10 {
		t.Errorf("the promoted policy decided %d of 10", len(decided))
	}
	try("newer@3", 1)
	if err := core.Rollback(); err != nil {
		t.Fatal(err)
	}
	inCharge("old@1", "")
	if trial, ok := core.Trial(); !ok || trial.Policy != "newer@3" {
		t.Error("a trial ended with the rollback of another policy")
	}
	if !core.EndTrial() || core.Rollback() == nil {
		t.Error("no trial to end, or a second way back")
	}
	setPolicy(t, core, named{always(1), "reloaded@4"})
	inCharge("reloaded@4", "old@1")
}

// Orders come while requests are decided side by side: each request is decided by
// one of the policies there are, and every lease ends.
func TestOrdersUnderLoad(t *testing.T) {
	core := newCore(t, 0, whole)
	setPolicy(t, core, named{always(0), "a"})
	var all, orders sync.WaitGroup
	stop := make(chan struct{})
	orders.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = core.Try(named{always(1 + i%2), "b"}, 0.5)
			core.Trial()
			if i%3 == 0 {
				_ = core.Promote()
			}
			if i%5 == 0 {
				_ = core.Rollback()
			}
			if i%7 == 0 {
				core.EndTrial()
			}
		}
	})
	for g := range 4 {
		all.Go(func() {
			for i := range 500 {
				choice, err := route(core, &fleet.Request{ID: uint64(g*500 + i)}, time.Duration(i))
				if err != nil || choice.Fallback || choice.Policy != "a" && choice.Policy != "b" || (choice.Policy == "a") != (choice.Variant == 0) {
					t.Errorf("%+v, %v", choice, err)
				}
				choice.Lease.End()
			}
		})
	}
	all.Wait()
	close(stop)
	orders.Wait()
	if n := core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestTrialAllocatesNothing(t *testing.T) {
	core := newCore(t, 512, whole)
	setPolicy(t, core, placing(t, core.Table()))
	if err := core.Try(named{always(1), "shadow"}, 0.5); err != nil {
		t.Fatal(err)
	}
	allocatesNothing(t, core)
}

// BenchmarkShadow is BenchmarkPlacing with another such policy as its shadow.
func BenchmarkShadow(b *testing.B) {
	core := newCore(b, 512, whole)
	setPolicy(b, core, placing(b, core.Table()))
	if err := core.Try(placing(b, core.Table()), 0); err != nil {
		b.Fatal(err)
	}
	measure(b, core)
}
