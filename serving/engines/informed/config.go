// Package informed keeps a router informed of the load of its replicas, and a balancer that chooses
// by it: what engines say with their answers, on their pages, and where they are asked for it.
package informed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/signals"
)

// Config is how the router learns the load of replicas, and by what it compares it.
type Config struct {
	// Source is where the load comes from: one of [Sources].
	Source string `yaml:"source"`
	// Counter is what replicas are compared by: model, host or work.
	Counter string `yaml:"counter"`
	// Counters are those of single variants, by their names.
	Counters map[string]string `yaml:"counters,omitempty"`
	// ChangeOver is how long it takes after a reload until all requests are compared by a new
	// counter.
	ChangeOver time.Duration `yaml:"change_over"`
	// Probes is how many replicas are asked for each request on average, at most. Zero is what the
	// balancer has by itself.
	Probes float64 `yaml:"probes,omitempty"`
	// ProbeTimeout is how long a request waits for replicas that are asked before the choice, all
	// together.
	ProbeTimeout time.Duration `yaml:"probe_timeout"`
	// StaleAfter is the age from which what a replica said is not used.
	StaleAfter time.Duration `yaml:"stale_after"`
}

// Where the load may come from.
const (
	// All is every way below, as the balancer needs it: nothing is asked for where it needs none.
	All = "all"
	// Own is the router's own requests alone.
	Own = "own"
	// Header is what engines say with their answers.
	Header = "header"
	// Poll is what they say when they are asked at intervals.
	Poll = "poll"
	// Probe is what they say when they are asked before a choice, and with their answers.
	Probe = "probe"
)

// Sources lists where the load may come from.
var Sources = []string{All, Own, Header, Poll, Probe}

// DefaultConfig needs no thought.
func DefaultConfig() Config {
	return Config{Source: All, Counter: signals.ByModel.String(), ChangeOver: time.Minute, ProbeTimeout: 5 * time.Millisecond, StaleAfter: 5 * time.Second}
}

// probesMost is more than asking can be worth.
const probesMost = 16

// Validate names every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	found.If(!slices.Contains(Sources, c.Source), "source: unknown source %q; want one of %s", c.Source, strings.Join(Sources, ", "))
	if _, err := counterNamed(c.Counter); err != nil {
		found.Add(fmt.Errorf("counter: %w", err))
	}
	for _, variant := range sortedKeys(c.Counters) {
		if _, err := counterNamed(c.Counters[variant]); err != nil {
			found.Add(fmt.Errorf("counters.%s: %w", variant, err))
		}
	}
	found.If(c.ChangeOver < 0, "change_over: %v is negative; want a time, or 0 for at once", c.ChangeOver)
	found.If(!(c.Probes >= 0 && c.Probes <= probesMost), "probes: want 0 to %d for each request, not %v", probesMost, c.Probes)
	found.If(c.ProbeTimeout <= 0 || c.ProbeTimeout > time.Second, "probe_timeout: want more than 0 and at most 1s, not %v", c.ProbeTimeout)
	found.If(c.StaleAfter <= 0, "stale_after: %v must be positive", c.StaleAfter)
	return found.Err()
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// counterNamed returns the counter of a name.
func counterNamed(name string) (signals.Counter, error) {
	counters := []signals.Counter{signals.ByModel, signals.ByHost, signals.ByWork}
	for _, c := range counters {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("unknown counter %q; want model, host or work", name)
}

// counter returns that of the variant.
func (c *Config) counter(variant string) signals.Counter {
	name, ok := c.Counters[variant]
	if !ok {
		name = c.Counter
	}
	counter, _ := counterNamed(name) // which Validate has checked
	return counter
}
