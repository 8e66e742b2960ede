// Package clients simulates clients that choose a replica for each request by what each of them
// knows, without a router. Their hosts are those of an [env.Simulator], under the law
// [env.SharedHost]. The choice is a [balance.Chooser]'s, and what changes the replicas is a
// [control.Controller], the code that a router uses; what is simulated is what "Taming the tail
// utilization of ads inference" (Engineering at Meta, 2024) describes.
package clients

import (
	"math/rand/v2"
	"time"

	"gearshift/env"
	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// Demand is a model, and what is asked of it. Versions distinguish models of one name, of which
// one may replace another: the first in the list gets all requests for the name, until a
// controller sets other parts.
type Demand struct {
	fleet.Model
	// Share is its part of all requests, relative to those of the others. A further version of
	// a name has none of its own: it is zero there.
	Share float64
	// Work draws how long a request takes on one core.
	Work func(random *rand.Rand) time.Duration
	// Mean is that of Work: the estimate that hosts count outstanding work by. With Examples it is
	// that of one.
	Mean time.Duration
	// Replicas are the hosts that have it at the start. On others it is cold.
	Replicas []int
	// Bandwidth is what a request uses of its host's while it has a core at full speed.
	Bandwidth float64
	// LoadWork sets how much a load takes of a core once the replica has been read from disk.
	LoadWork time.Duration
	// The first Cold requests on a replica that has been loaded take Coldness times as long.
	Cold     int
	Coldness float64
}

// Hog is what takes of a host's memory bandwidth without a request, such as a batch job.
type Hog struct {
	Host      int
	Bandwidth float64
	From, To  time.Duration
}

// Config describes a run.
type Config struct {
	// Hosts are the machines. Compute is how many cores each has, of which a request uses one, and
	// Bandwidth is in any unit; one that is zero has memory slow nothing.
	Hosts  []fleet.Host
	Models []Demand
	// Clients is how many there are, each with a view of its own.
	Clients int
	// Rate is that of all requests, per second. RateAt, if there is one, takes its place: it is
	// the rate at a time, above 0.
	Rate   float64
	RateAt func(now time.Duration) float64
	// Fanout is how many different models each request of a client asks at once, each drawn by its
	// share. It is answered when all have answered. 0 and 1 are one model.
	Fanout int
	// Examples draws how many examples a request carries to each model that it asks, 1 at least:
	// each of them takes Work of its own. Nil has each carry one.
	Examples func(random *rand.Rand) int
	// ShareAt, if there is one, is what a model's share is multiplied by in the Period that
	// begins then.
	ShareAt func(model int, now time.Duration) float64
	Hogs    []Hog
	// Losses are the hosts that are lost, and what they have with them. Clients know at once.
	Losses []env.HostLoss
	// Stall is the law of memory bandwidth; the zero value is [profile.DefaultBandwidth].
	Stall   profile.Bandwidth
	Chooser balance.Chooser
	// Control makes the controller that changes the replicas, of which there may be one of each
	// model on each host then; nil has them stay as they are. Several are one as a [control.Set].
	Control func(f *Fleet) control.Controller
	// Period is how often hosts and replicas are measured. Zero measures nothing in between.
	Period time.Duration
	// PollTakes is how much longer a request takes that is preceded by polls.
	PollTakes time.Duration
	// PollWork sets how much the answer to a poll or a probe takes of a core of the host that is asked,
	// before its requests.
	PollWork time.Duration
	// Turns has each host run one request of a model at a time, in the order in which they came, as
	// engines without batches do. Otherwise all that it has share its cores.
	Turns bool
	// Board, if not zero, is how often the clients learn what all replicas say, all at the same
	// time; between, they learn nothing. Zero has each answer say it to the client that gets it.
	Board time.Duration
	// Timeout is after how long a request counts as timed out. It is answered all the same.
	Timeout time.Duration
	// Most, if not zero, ends the run as soon as more requests than that have timed out or failed.
	Most int
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

// Capacity is how many requests per second the hosts can answer at most, were all their cores
// busy: the rate at which a load of 1 is.
func (c *Config) Capacity() float64 {
	var cores, work, shares float64
	for i := range c.Hosts {
		cores += c.Hosts[i].Compute
	}
	for i := range c.Models {
		work += c.Models[i].Share * c.Models[i].Mean.Seconds()
		shares += c.Models[i].Share
	}
	return cores * shares / work
}
