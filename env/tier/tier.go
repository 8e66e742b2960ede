// Package tier simulates a tier of hosts that answer requests of many models, and the clients
// that choose a host for each request by what they know. Hosts share their processors, and
// their memory bandwidth, among all requests that they have. The choice is a
// [balance.Chooser]'s, and what changes the replicas is a [control.Controller], the code that
// a router uses; the world around them is what "Taming the tail utilization of ads inference"
// (Engineering at Meta, 2024) describes.
package tier

import (
	"math/rand/v2"
	"time"

	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/profile"
)

// Host is a machine.
type Host struct {
	// Cores is how many requests it works on at full speed; more than that share them.
	Cores float64
	// Memory is what its replicas may take together, in bytes. Zero is no limit.
	Memory int64
	// Bandwidth is that of its memory, in any unit. Zero has memory slow nothing.
	Bandwidth float64
}

// Model is what requests are for.
type Model struct {
	Name string
	// Version distinguishes models of one name, of which one may replace another. The first
	// in the list gets all requests for the name, until a controller sets other parts.
	Version string
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
	// Memory is what a replica takes, from the beginning of its load on, in bytes.
	Memory int64
	// Bandwidth is what a request uses of its host's while it has a core at full speed.
	Bandwidth float64
	// LoadTime is how long a replica takes to be read from disk. After that, LoadWork is what
	// its load takes of a core.
	LoadTime, LoadWork time.Duration
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
	Hosts  []Host
	Models []Model
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
	// Stall is the law of memory bandwidth; the zero value is [profile.DefaultBandwidth].
	Stall   profile.Bandwidth
	Chooser balance.Chooser
	// Control makes the controller that changes the replicas, of a tier that begins at 0; nil
	// has them stay as they are. Several are one as a [control.Set].
	Control func(t *Tier) control.Controller
	// Period is how often hosts and replicas are measured. Zero measures nothing in between.
	Period time.Duration
	// PollTakes is how much longer a request takes that is preceded by polls.
	PollTakes time.Duration
	// PollWork is what the answer to a poll or a probe takes of a core of the host that is asked,
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
