// Package placements trains policies that decide which sizes are up on which host, and judges them against rules. An
// episode is the scenario's fleet under a load that changes; the policy is asked as a router asks it, once a second.
package placements

import (
	"slices"

	"gearshift/internal/scenario"
)

// Times lists the durations of an engine in ms: to fall asleep, to wake, and the delay of its first answer then.
type Times struct{ Sleep, Wake, First float64 }

// Law is the times of engines by the memory of their models.
type Law struct {
	Name string
	// Small are those of models up to smallModel, and Large those from largeModel on. Between them they are
	// interpolated. Zero laws leave the scenario's times.
	Small, Large Times
}

const smallModel, largeModel = 1.5e9, 10e9 // bytes

// Laws lists the measured laws; docs/guides/loading-models.md has their sources.
func Laws() []Law {
	return []Law{
		{"vLLM level 1", Times{300, 800, 450}, Times{900, 2600, 930}},
		{"vLLM level 1, no warm-up", Times{300, 800, 2600}, Times{900, 2600, 6600}},
		{"vLLM level 2", Times{300, 850, 450}, Times{900, 2580, 930}},
		{"reload, 10 s", Times{500, 10_000, 450}, Times{500, 10_000, 930}},
		{"reload, 38 to 58 s", Times{500, 37_600, 450}, Times{500, 58_100, 930}},
	}
}

// On returns the scenario with the law's times for all its models.
func (l *Law) On(s *scenario.Scenario) *scenario.Scenario {
	x := *s
	x.Weights = slices.Clone(s.Weights)
	if len(x.Weights) == 0 { // then each variant has a model of its own
		x.Variants = slices.Clone(s.Variants)
		for i := range x.Variants {
			x.Weights = append(x.Weights, scenario.Model{Name: x.Variants[i].Name})
			x.Variants[i].Model = x.Variants[i].Name
		}
		for r, p := range s.Profiles() {
			x.Weights[s.Table().Replicas[r].Variant].Memory = scenario.Bytes(p.WeightBytes)
		}
	}
	for i := range x.Weights {
		m := &x.Weights[i]
		part := min(1, max(0, (float64(m.Memory)-smallModel)/(largeModel-smallModel)))
		mix := func(a, b float64) float64 { return a + part*(b-a) }
		m.SleepMS, m.WakeMS, m.FirstAnswerMS = mix(l.Small.Sleep, l.Large.Sleep), mix(l.Small.Wake, l.Large.Wake), mix(l.Small.First, l.Large.First)
	}
	return &x
}
