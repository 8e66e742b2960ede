package tail

import (
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// rule is one way to choose.
type rule struct {
	name    string
	chooser balance.Chooser
}

func rules() []rule {
	list := []rule{{"random", balance.Sampled{K: 1}}}
	for _, poll := range []bool{false, true} {
		for _, c := range []signals.Counter{signals.ByHost, signals.ByModel, signals.ByWork} {
			name := "two choices, as last said, by " + c.String()
			if poll {
				name = "two choices, polled, by " + c.String()
			}
			list = append(list, rule{name, balance.Sampled{K: 2, Counter: c, Poll: poll}})
		}
	}
	return list
}
