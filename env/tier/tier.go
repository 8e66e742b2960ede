// Package tier simulates a tier of hosts that answer requests of many models, and the clients
// that choose a host for each request by what they know. Hosts share their processors among
// all requests that they have. The choice is a [balance.Chooser]'s, the code that a router
// uses; the world around it is what "Taming the tail utilization of ads inference"
// (Engineering at Meta, 2024) describes.
package tier

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/balance"
)

// Host is a machine.
type Host struct {
	// Cores is how many requests it works on at full speed; more than that share them.
	Cores float64
}

// Model is what requests are for.
type Model struct {
	Name string
	// Share is its part of all requests, relative to those of the others.
	Share float64
	// Work draws how long a request takes on one core.
	Work func(random *rand.Rand) time.Duration
	// Mean is that of Work: the estimate that hosts count outstanding work by.
	Mean time.Duration
	// Replicas are the hosts that have it.
	Replicas []int
}

// Config describes a run.
type Config struct {
	Hosts  []Host
	Models []Model
	// Clients is how many there are, each with a view of its own.
	Clients int
	// Rate is that of all requests, per second.
	Rate    float64
	Chooser balance.Chooser
	// PollTakes is how much longer a request takes that is preceded by polls.
	PollTakes time.Duration
	// Board, if not zero, is how often the clients learn what all replicas say, all at the same
	// time; between, they learn nothing. Zero has each answer say it to the client that gets it.
	Board time.Duration
	// Timeout is after how long a request counts as timed out. It is answered all the same.
	Timeout time.Duration
	// Length is how long requests arrive. Those of the first Warmup are not counted.
	Length, Warmup time.Duration
	Seed           uint64
}

// Exponential draws work with an exponential distribution.
func Exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(random *rand.Rand) time.Duration {
		return time.Duration(random.ExpFloat64() * float64(mean))
	}
}

// Always is work that does not vary.
func Always(work time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return work }
}

// Capacity is how many requests per second the hosts can answer at most, were all their cores
// busy: the rate at which a load of 1 is.
func (c *Config) Capacity() float64 {
	var cores, work, shares float64
	for i := range c.Hosts {
		cores += c.Hosts[i].Cores
	}
	for i := range c.Models {
		work += c.Models[i].Share * c.Models[i].Mean.Seconds()
		shares += c.Models[i].Share
	}
	return cores * shares / work
}

func (c *Config) validate() error {
	if len(c.Hosts) == 0 || len(c.Models) == 0 || c.Chooser == nil {
		return errors.New("a tier needs hosts, models and a chooser")
	}
	var found faults.List
	for i, h := range c.Hosts {
		found.If(!(h.Cores > 0) || math.IsInf(h.Cores, 1), "host %d has %v cores; want a number above 0", i, h.Cores)
	}
	for _, m := range c.Models {
		found.If(!(m.Share > 0) || math.IsInf(m.Share, 1), "model %q has a share of %v; want a number above 0", m.Name, m.Share)
		found.If(m.Work == nil || m.Mean <= 0, "model %q has no work; want a distribution and its mean", m.Name)
		found.If(len(m.Replicas) == 0, "model %q is on no host", m.Name)
		for _, h := range m.Replicas {
			found.If(h < 0 || h >= len(c.Hosts), "model %q is on host %d of %d, counted from 0", m.Name, h, len(c.Hosts))
		}
	}
	found.If(c.Clients < 1, "%d clients; want at least 1", c.Clients)
	found.If(!(c.Rate > 0) || math.IsInf(c.Rate, 1), "a rate of %v; want a number above 0", c.Rate)
	found.If(c.Length <= c.Warmup || c.Warmup < 0, "a length of %v and a warm-up of %v; the length must be more", c.Length, c.Warmup)
	found.If(c.PollTakes < 0 || c.Board < 0 || c.Timeout < 0, "polls that take %v, a board each %v and a timeout of %v; none may be negative", c.PollTakes, c.Board, c.Timeout)
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot simulate the tier: %w", err)
	}
	return nil
}
