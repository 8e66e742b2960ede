package tail

import (
	"time"

	"gearshift/router/balance"
	"gearshift/router/signals"
)

// rule is one way to choose.
type rule struct {
	name    string
	chooser balance.Chooser
}

// The names of the rules that verdicts speak of.
const (
	byChance = "random"
	byPolled = "two choices, polled, by work"
	byPeak   = "peak-EWMA"
	byTurns  = "weighted round robin"
	byPool   = "Prequal"
	byWorth  = "probing by worth, 0.4 a request"
)

// rules are what is known and how it is compared, with two choices.
func rules() []rule {
	list := []rule{{byChance, balance.Sampled{K: 1}}}
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

// variations are what was tried beyond two choices, with little effect (META-5).
func variations() []rule {
	polled, said := balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}, balance.Sampled{K: 2, Counter: signals.ByWork}
	four := polled
	four.K = 4
	return []rule{
		{"four choices, polled, by work", four},
		{"two choices, polled, by work, hedged", balance.Hedged{Chooser: polled, Quantile: 0.95, Start: 100 * time.Millisecond, Most: 0.05}},
		{"two choices, as last said, by work, weighed by cores", balance.Hardware{Sampled: said}},
		{"two choices, polled, by work, weighed by cores", balance.Hardware{Sampled: polled}},
	}
}

// peers are balancers of others, tuned on tiers of which none is reported, and ours.
func peers() []rule {
	return []rule{
		{byPeak, balance.PeakEWMA{K: 4, Decay: 10 * time.Second, Start: 30 * time.Millisecond}},
		{byTurns, balance.Weighted{Blackout: 500 * time.Millisecond, Expiry: time.Minute, Update: time.Second, Penalty: 1}},
		{byPool, prequal(3)},
		{byWorth, probing(0.4)},
	}
}

// prequal is Prequal with so many probes for each request, tuned, with a pool for all models. An answer
// is used once if there are enough, else as often as it must be.
func prequal(probes float64) balance.Prequal {
	p := balance.Prequal{
		Probes: probes, Pool: 16, Least: 1, Age: 100 * time.Millisecond, Reuse: 1, Remove: 1, Quantile: 0.84,
		Requests: signals.ByHost, Drain: true, Shared: true,
	}
	if probes < 2 {
		p.Reuse, p.Remove, p.Age = int(3/probes), 0, 5*time.Second
	}
	return p
}

// probing is ours with so many questions for each request.
func probing(each float64) balance.Probing {
	return balance.Probing{Budget: each, Look: 8, Relax: 100 * time.Millisecond, Rounds: 4, Counter: signals.ByWork}
}
