package balance_test

import (
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/signals"
)

// named is a rule to test.
type named struct {
	name     string
	chooser  balance.Chooser
	expected conformance.Choosing
}

// choosers are the rules that choose by what a client knows.
func choosers() []named {
	two := balance.Sampled{K: 2, Counter: signals.ByWork}
	polled := balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}
	prequal := balance.Prequal{Probes: 3, Pool: 16, Least: 2, Age: time.Second, Reuse: 3, Remove: 1, Quantile: 0.84}
	drain := prequal
	drain.Drain, drain.Requests = true, signals.ByHost
	shared := drain
	shared.Shared = true
	peak := balance.PeakEWMA{K: 2, Decay: 10 * time.Second, Start: 30 * time.Millisecond}
	return []named{
		{"random", balance.Sampled{K: 1}, conformance.Choosing{Ignorant: true}},
		{"two choices", two, conformance.Choosing{}},
		{"two choices, polled", polled, conformance.Choosing{}},
		{"hardware", balance.Hardware{Sampled: polled}, conformance.Choosing{}},
		{"peak-ewma", peak, conformance.Choosing{}},
		{"weighted", balance.Weighted{Blackout: 100 * time.Millisecond, Expiry: time.Minute, Update: time.Second, Penalty: 1}, conformance.Choosing{}},
		{"prequal", prequal, conformance.Choosing{Clumps: 3}},
		{"prequal by drain", drain, conformance.Choosing{Clumps: 3}},
		{"prequal, shared", shared, conformance.Choosing{Clumps: 3}},
		{"hedged", balance.Hedged{Chooser: peak, Quantile: 0.95, Start: 100 * time.Millisecond, Most: 0.05}, conformance.Choosing{}},
		{"probing", balance.Probing{Budget: 0.5, Look: 4, Relax: 100 * time.Millisecond, Rounds: 4, Counter: signals.ByWork}, conformance.Choosing{Clumps: 3}},
		{"probing, seldom", balance.Probing{Budget: 0.1, Look: 4, Relax: 100 * time.Millisecond, Rounds: 2, Counter: signals.ByWork}, conformance.Choosing{Clumps: 3}},
	}
}

func TestChoosersConform(t *testing.T) {
	for _, x := range choosers() {
		t.Run(x.name, func(t *testing.T) { conformance.Chooser(t, x.chooser, x.expected) })
	}
}
