package env_test

import (
	"reflect"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/router/fleet"
)

// Hosts run to their ends one after the other; what ends is told in order of the ends,
// at the same moment by host, as if they ran one event at a time. What a host's loss
// ends comes after what ended at that moment.
func TestDrainIsInOrder(t *testing.T) {
	c := twoByTwo(t)
	c.Losses = []env.HostLoss{{Host: 0, From: 1500 * time.Millisecond}}
	drain := func(observe func(engine.Step)) []env.Outcome {
		s, err := env.NewSimulator(&c)
		if err != nil {
			t.Fatal(err)
		}
		ledger := fleet.NewLedger(c.Table)
		for h := range c.Table.Hosts {
			s.Host(h).Observe = observe
		}
		// The same on both hosts, so that many end at the same moment.
		for n := range 120 {
			replica := []int{1, 0, 3, 2}[n%4]
			lease, ok := ledger.Begin(replica, 0)
			if !ok {
				t.Fatal("no place")
			}
			if err := s.Submit(n, fleet.Request{PromptTokens: 40 + n/2}, 5+n/2, replica, lease, 0); err != nil {
				t.Fatal(err)
			}
		}
		outcomes, err := s.Drain(nil)
		if err != nil {
			t.Fatal(err)
		}
		return outcomes
	}
	got, want := drain(nil), drain(func(engine.Step) {})
	if !reflect.DeepEqual(got, want) {
		t.Error("the order is another one than of event after event")
	}
	var ties, failed int
	for i := range got[1:] {
		a, b := &got[i], &got[i+1]
		if a.Finished > b.Finished {
			t.Errorf("decision %d ends at %v, before it one at %v", b.Decision, b.Finished, a.Finished)
		}
		if !b.Failed && a.Finished == b.Finished && c.Table.Replicas[a.Replica].Host != c.Table.Replicas[b.Replica].Host {
			ties++
		}
		if b.Failed {
			failed++
		}
	}
	if ties < 10 || failed < 10 {
		t.Errorf("%d ends at the same moment on both hosts, %d failed: too easy a test", ties, failed)
	}
}
