package informed

import (
	"fmt"
	"strconv"
	"strings"

	"gearshift/router/balance"
	"gearshift/router/signals"
)

// Forms lists the balancers that choose by what replicas say of their load, as a scenario names
// them.
const Forms = "sampled:K"

// drawnMost is more replicas than it is worth to compare.
const drawnMost = 8

// RuleNamed returns the rule of a balancer's name; ok is false if none of this package has it.
func RuleNamed(name string, c Config) (rule Rule, ok bool, err error) {
	if text, sampled := strings.CutPrefix(name, "sampled:"); sampled {
		k, err := strconv.Atoi(text)
		if err != nil || k < 1 || k > drawnMost {
			return Rule{}, true, fmt.Errorf("balancer %q: want sampled:K with K from 1 to %d", name, drawnMost)
		}
		return Rule{Hears: true, Make: func(by signals.Counter) balance.Chooser {
			return balance.Sampled{K: k, Counter: by, Poll: c.Source == Probe}
		}}, true, nil
	}
	return Rule{}, false, nil
}
