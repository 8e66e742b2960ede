// Package env simulates the fleet that policies train and are judged in. It is a
// discrete-event simulator of hosts with co-resident engines, and over it a
// Gymnasium-style environment whose steps are routing decisions. It reads no clock, and
// draws no random number that does not follow from a seed, so that an episode repeats
// bit for bit.
package env

import (
	"errors"
	"fmt"
	"time"

	"gearshift/env/engine"
	"gearshift/internal/faults"
	"gearshift/router/control"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// Balancer chooses the replica of a variant, or −1 if none is available. Pick gets a fresh
// random number, so that a balancer that needs chance holds no state.
type Balancer interface {
	Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
}

// Forecaster estimates how a request would fare on each replica, and writes that into
// v.Forecasts.
type Forecaster interface {
	Forecast(v *fleet.View, r *fleet.Request)
}

// Config describes what an [Environment] simulates.
type Config struct {
	Table *fleet.Table
	// Profiles and KVTokens describe each replica of the table, by its index.
	Profiles []*profile.Profile
	KVTokens []int
	// Declared, if set, are the profiles that policies plan with, where the engines may
	// differ from them. Views then say how slow each replica is, estimated from the token
	// times of its answers, as in a router that serves streams. Several routers do not
	// estimate it.
	Declared []*profile.Profile
	// Uncorrected leaves out how slow replicas are from the views all the same.
	Uncorrected bool
	// Doubt has [Environment.Doubted] report what a router would doubt; without Declared it doubts nothing.
	Doubt bool
	// Timed, if set, is called with each whole answer that a request's engine gave, as a router times it.
	Timed func(*drift.Timing)
	// Slowdowns, if set, are the perturbations of each host's speed. They are the same in
	// every episode of a seed, whatever is decided, so that policies can be compared.
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
	// Prompts are those that requests may carry. Nil: they carry none.
	Prompts *Prompts
	// KnownRate gives the policy the workload's true rate instead of the estimate
	// (LBE-19).
	KnownRate bool
	// Laws, if set, makes what hosts work by in an episode, in place of engines by Profiles and
	// KVTokens. Work is then what a request takes on a replica, of a core.
	Laws func() []Law
	Work func(r fleet.Request, outputTokens, replica int) time.Duration
	// Period sets how often a follower measures; zero is never.
	Period time.Duration
	// LoadWork lists how much loads take of their hosts, by replica, after LoadTimes. It is for hosts
	// whose law is a [Loader]. Nil is nothing.
	LoadWork []time.Duration
	// Losses are the hosts that are lost during every episode.
	Losses []HostLoss
	// DrawLosses, if set, returns the losses of the episode of a seed. It replaces Losses.
	DrawLosses func(seed uint64) []HostLoss
	// Controllers, if set, makes the controllers of one episode. There is one router then.
	Controllers func(a ControlAccess) []control.Controller
	// Initial are the states of replicas at the start: Up, Cold or Warm. Nil takes those of
	// the table.
	Initial []fleet.State
	// LoadTimes are how long the replicas take to load, where the table's model has no
	// time; nil is [DefaultLoad]. WakeTimes holds the time of a sleep and of a wake; nil takes the
	// models' own.
	LoadTimes, WakeTimes []time.Duration
	// WarmUp makes the first answer after a load or a wake part of it, as where the router sends a request of its own.
	WarmUp bool
	// Evidence sets how failures become known. The zero value makes them known at once.
	Evidence Evidence
	// Routers sets how many routers share the fleet. The zero value is one.
	Routers Routers
	// AsServed, if set, makes requests wait and be refused as in the router that serves.
	AsServed *AsServed
	// Jobs, if set, makes those of an episode, which share the fleet with the requests that are routed.
	// There is one router then. No jobs come after a truncation.
	Jobs func(seed uint64) (*Jobs, error)
	// Beside, if set, makes a follower that shares the fleet with the requests that are routed, for an episode. There is
	// one router then.
	Beside func(*Beside) (Scheduled, error)
	// Limit truncates an episode after so many decisions. Zero is no limit.
	Limit int
	// Marginal fills in [Outcome.Marginal], as if no other request came, and Difference does with
	// those that come.
	Marginal, Difference bool
	// Check verifies the simulator's invariants after every event.
	Check bool
}

// Steady removes the perturbations of the hosts' speed. Measurements of an engine are
// compared with its profile that way, since the profile knows none.
func (c *Config) Steady() { c.Slowdowns, c.Declared = nil, nil }

// Quickest returns the profile of each replica when its host is at its fastest.
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

var errRequired = errors.New("cannot make environment: Table, Balancer and Open are required")

func (c *Config) validate() error {
	var found faults.List
	if c.Table == nil {
		return errRequired
	}
	n := len(c.Table.Replicas)
	if c.Laws == nil {
		found.If(len(c.Profiles) != n || len(c.KVTokens) != n, "%d profiles and %d KV sizes for %d replicas", len(c.Profiles), len(c.KVTokens), n)
	} else {
		found.If(len(c.Profiles) > 0 || c.Slowdowns != nil || c.Declared != nil || c.Marginal || c.Difference || c.Routers.Number > 1,
			"laws of hosts with profiles, slowdowns, marginal rewards or several routers, which are for engines alone")
		found.If(c.Open != nil && c.Work == nil, "laws of hosts without the work of requests")
	}
	found.If(c.Declared != nil && len(c.Declared) != len(c.Profiles), "%d declared profiles for %d replicas", len(c.Declared), len(c.Profiles))
	found.If(c.Slowdowns != nil && len(c.Slowdowns) != len(c.Table.Hosts), "%d slowdowns for %d hosts", len(c.Slowdowns), len(c.Table.Hosts))
	for i, s := range c.Slowdowns {
		err := s.Validate()
		found.If(err != nil && s != (engine.Slowdown{}), "host %d: %w", i, err)
	}
	found.If(c.Marginal && c.Difference, "marginal rewards and difference rewards, of which a request earns one")
	found.If(c.Jobs != nil && (c.Marginal || c.Difference || c.Routers.Number > 1), "jobs with marginal rewards or several routers, which follow requests that are routed alone")
	found.If(c.Beside != nil && (c.Laws != nil || c.Marginal || c.Difference || c.Routers.Number > 1), "streams under other laws than engines', with marginal rewards or with several routers")
	c.checkControl(&found)
	c.Prompts.validate(c.Table, &found)
	found.If(c.Limit < 0, "a limit of %d decisions", c.Limit)
	found.If(c.AsServed != nil && c.Routers.Number > 1, "%d routers, of which each would have requests that wait; as served there is one", c.Routers.Number)
	found.Add(c.Routers.validate(), checkLosses(c.Losses, c.Table, c.Open != nil))
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot make environment: %w", err)
	}
	return nil
}

// inputKinds returns the kinds of the tasks' input, by replica and task, as the profiles
// number them; nil for a replica whose profile has none.
func (c *Config) inputKinds() [][]int {
	list := make([][]int, len(c.Table.Replicas))
	for r, p := range c.Profiles {
		if p.Batches == nil {
			continue
		}
		for _, t := range c.Table.Tasks {
			list[r] = append(list[r], max(0, p.Batches.Kind(t.Kind))) // a kind without times is 0: such a task is not sent there
		}
	}
	return list
}

// SlowGPU makes the GPU part of every step take factor times as long as the profiles say,
// to show what a wrong estimate does. Rules and policies that were made of the declared
// profiles keep those.
func (c *Config) SlowGPU(factor float64) {
	slowed := map[*profile.Profile]*profile.Profile{} // replicas may share one
	profiles := make([]*profile.Profile, len(c.Profiles))
	for i, p := range c.Profiles {
		if slowed[p] == nil {
			slowed[p] = p.SlowerGPU(factor)
		}
		profiles[i] = slowed[p]
	}
	c.Profiles = profiles
}

// SlowVariants makes the engines of each variant slower than the profiles say, by the
// factor at the variant's index. Rules and policies that were made of the declared profiles
// keep those.
func (c *Config) SlowVariants(factors []float64) {
	profiles := make([]*profile.Profile, len(c.Profiles))
	for i, p := range c.Profiles {
		profiles[i] = p.Slower(factors[c.Table.Replicas[i].Variant])
	}
	c.Profiles = profiles
}
