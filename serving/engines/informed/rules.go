package informed

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gearshift/router/balance"
	"gearshift/router/signals"
)

// Forms lists the balancers that choose by what replicas say of their load, as a scenario names
// them.
const Forms = "peak-ewma, weighted, prequal, probing and sampled:K"

// drawnMost is more replicas than it is worth to compare.
const drawnMost = 8

// The numbers of replicas that rules ask for each request, where the configuration says none.
const (
	prequalProbes = 3
	probingProbes = 0.2
)

// RuleNamed returns the rule of a balancer's name; ok is false if none of this package has it.
func RuleNamed(name string, c Config) (rule Rule, ok bool, err error) {
	asks := c.Source == All || c.Source == Probe
	switch name {
	case "peak-ewma":
		return always(balance.PeakEWMA{K: 2, Decay: 10 * time.Second, Start: 30 * time.Millisecond}), true, nil
	case "weighted":
		return always(balance.Weighted{Blackout: 10 * time.Second, Expiry: 3 * time.Minute, Update: time.Second, Penalty: 1}), true, nil
	case "prequal":
		return prequal(cmp.Or(c.Probes, prequalProbes)), true, asksAt(name, asks)
	case "probing":
		return probing(cmp.Or(c.Probes, probingProbes)), true, asksAt(name, asks)
	}
	text, sampled := strings.CutPrefix(name, "sampled:")
	if !sampled {
		return Rule{}, false, nil
	}
	k, err := strconv.Atoi(text)
	if err != nil || k < 1 || k > drawnMost {
		return Rule{}, true, fmt.Errorf("balancer %q: want sampled:K with K from 1 to %d", name, drawnMost)
	}
	poll := c.Source == Probe
	return Rule{Hears: true, Polls: poll, Probes: cmp.Or(c.Probes, float64(k)), Make: func(by signals.Counter, _ []time.Duration) balance.Chooser {
		return balance.Sampled{K: k, Counter: by, Poll: poll}
	}}, true, nil
}

// asksAt is the error of a balancer that asks replicas, where the source of the load forbids that.
func asksAt(name string, asks bool) error {
	if asks {
		return nil
	}
	return fmt.Errorf("balancer %q asks replicas for their load; want serving.signals.source: %s or %s", name, All, Probe)
}

// always is a rule without a counter.
func always(c balance.Chooser) Rule {
	return Rule{Make: func(signals.Counter, []time.Duration) balance.Chooser { return c }}
}

// prequal has the parameters of the paper, but for the work that is outstanding in place of how long
// requests took.
func prequal(probes float64) Rule {
	return Rule{Hears: true, Probes: probes, Make: func(by signals.Counter, _ []time.Duration) balance.Chooser {
		return balance.Prequal{
			Probes: probes, Pool: 16, Least: 2, Age: time.Second, Reuse: 1, Remove: 1, Quantile: 0.84,
			Requests: requestsOf(by), Drain: true, Shared: requestsOf(by) == signals.ByHost,
		}
	}}
}

// requestsOf returns the counter that counts requests.
func requestsOf(c signals.Counter) signals.Counter {
	if c == signals.ByWork {
		return signals.ByHost
	}
	return c
}

func probing(probes float64) Rule {
	return Rule{Hears: true, Polls: true, Probes: probes, Make: func(by signals.Counter, means []time.Duration) balance.Chooser {
		return balance.Probing{Budget: probes, Look: 8, Relax: relaxation(means), Rounds: 4, Counter: by}
	}}
}

// relaxation estimates in what time a load returns to the mean of all: in that of some requests.
func relaxation(means []time.Duration) time.Duration {
	const requests = 10
	var sum time.Duration
	known := 0
	for _, m := range means {
		if m > 0 {
			sum, known = sum+m, known+1
		}
	}
	if known == 0 {
		return 500 * time.Millisecond
	}
	return min(30*time.Second, max(50*time.Millisecond, requests*sum/time.Duration(known)))
}
