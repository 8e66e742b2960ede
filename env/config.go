// Package env is the simulated world that policies train and are judged in: a
// discrete-event simulator of hosts with co-resident engines, and over it a
// gym-style environment whose steps are routing decisions.
package env

import (
	"errors"
	"fmt"
	"time"

	"gearshift/env/engine"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// Balancer chooses the replica of a variant, or −1 if none is available.
// random is a fresh random number for those that need one.
type Balancer interface {
	Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
}

// Forecaster reckons what a request would do on each replica, and writes it into
// v.Forecasts.
type Forecaster interface {
	Forecast(v *fleet.View, r *fleet.Request)
}

// Config is what an [Environment] simulates.
type Config struct {
	Table *fleet.Table
	// Profiles and KVTokens describe each replica of the table, by its index.
	Profiles []*profile.Profile
	KVTokens []int
	// Declared, if set, are the profiles that policies reckon with, where engines may
	// differ from them. Then views tell how slow each replica is by the pace of its answers, as
	// they do in a router that serves streams, unless there are several.
	Declared []*profile.Profile
	// Slowdowns, if set, say of each host how its pace changes. It does so in the same way
	// in every episode of a seed, whatever is decided.
	Slowdowns []engine.Slowdown
	Engine    engine.Config
	Balancer  Balancer
	// Forecaster, if set, fills in each view's forecasts.
	Forecaster Forecaster
	// Encoder makes the observations. Nil leaves them empty, for deciders that
	// look at the View.
	Encoder *observation.Encoder
	// Open starts the workload of one episode.
	Open func(seed uint64) (workloads.Stream, error)
	// KnownRate gives the policy the workload's true rate in place of the
	// estimate (LBE-19).
	KnownRate bool
	// Losses are the hosts that are lost in the midst of every episode.
	Losses []HostLoss
	// DrawLosses, if set, are those of the episode of a seed, in place of Losses.
	DrawLosses func(seed uint64) []HostLoss
	// Controllers, if set, makes those that act on their own time in one episode. There is
	// one router then.
	Controllers func(w World) []control.Controller
	// Initial are the states of replicas at the start: Up, Cold or Warm. Nil is as the table
	// has them.
	Initial []fleet.State
	// LoadTimes are how long the replicas take to load, where the table has no model that
	// says so, and WakeTimes how long to sleep and wake. Nil is [DefaultLoad], and a tenth of
	// the load's time.
	LoadTimes, WakeTimes []time.Duration
	// Evidence has failures known by what is seen of them. The zero value has them known at
	// once.
	Evidence Evidence
	// Routers share the fleet, where there are several.
	Routers Routers
	// AsServed, if set, has requests wait and be refused as the live router does it.
	AsServed *AsServed
	// Limit truncates an episode after so many decisions. Zero is no limit.
	Limit int
	// Marginal has outcomes tell theirs.
	Marginal bool
	// Check verifies the simulator's invariants after every event.
	Check bool
}

// Steady forgets that the pace of hosts changes, as where what was measured of an engine
// is held against what its profile says.
func (c *Config) Steady() { c.Slowdowns, c.Declared = nil, nil }

// Quickest is the profile of each replica at the quickest pace of its host.
func (c *Config) Quickest() []*profile.Profile {
	if c.Slowdowns == nil {
		return c.Profiles
	}
	quickest := make([]*profile.Profile, len(c.Profiles))
	for i, p := range c.Profiles {
		if s := c.Slowdowns[c.Table.Replicas[i].Host]; s.Mean > 0 {
			p = p.Slower(s.Min)
		}
		quickest[i] = p
	}
	return quickest
}

func (c *Config) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Table == nil || c.Balancer == nil || c.Open == nil {
		return errors.New("cannot make environment: Table, Balancer and Open are required")
	}
	if n := len(c.Table.Replicas); len(c.Profiles) != n || len(c.KVTokens) != n {
		fault("%d profiles and %d KV sizes for %d replicas", len(c.Profiles), len(c.KVTokens), n)
	}
	if c.Declared != nil && len(c.Declared) != len(c.Profiles) {
		fault("%d declared profiles for %d replicas", len(c.Declared), len(c.Profiles))
	}
	if c.Slowdowns != nil && len(c.Slowdowns) != len(c.Table.Hosts) {
		fault("%d slowdowns for %d hosts", len(c.Slowdowns), len(c.Table.Hosts))
	}
	for i, s := range c.Slowdowns {
		if err := s.Validate(); err != nil && s != (engine.Slowdown{}) {
			fault("host %d: %w", i, err)
		}
	}
	c.checkControl(fault)
	if c.Limit < 0 {
		fault("a limit of %d decisions", c.Limit)
	}
	if c.AsServed != nil && c.Routers.Number > 1 {
		fault("%d routers, of which each would have requests that wait; as served there is one", c.Routers.Number)
	}
	if err := c.Routers.validate(); err != nil {
		faults = append(faults, err)
	}
	if err := checkLosses(c.Losses, c.Table); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return fmt.Errorf("cannot make environment: %w", errors.Join(faults...))
	}
	return nil
}

// kinds are the kinds of the tasks' input, by replica and task, as the profiles number
// them; nil of a replica whose profile has none.
func (c *Config) kinds() [][]int {
	list := make([][]int, len(c.Profiles))
	for r, p := range c.Profiles {
		if p.Batches == nil {
			continue
		}
		for _, t := range c.Table.Tasks {
			list[r] = append(list[r], max(0, p.Batches.Kind(t.Kind))) // of one without times, which is not sent there
		}
	}
	return list
}
