package balance_test

import (
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// named is a rule to test.
type named struct {
	name    string
	chooser balance.Chooser
}

// choosers are the rules that choose by what a client knows.
func choosers() []named {
	return []named{
		{"random", balance.Sampled{K: 1}},
		{"two choices", balance.Sampled{K: 2, Counter: signals.ByWork}},
		{"two choices, polled", balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}},
	}
}
