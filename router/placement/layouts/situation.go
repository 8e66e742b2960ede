// Package layouts decides which replicas of a host are up together. The replicas of a host need more memory than it
// has, so that they take turns: a large size gives its memory to smaller ones, which answer more requests at a time. A
// [Chooser] picks a layout for a host by what it sees, a rule or a learned policy; a controller changes the host,
// within an operator's limits.
package layouts

import (
	"slices"
	"time"

	"gearshift/router/fleet"
)

// Layout is a set of replicas of one host that are up together, within its memory.
type Layout struct {
	Host int
	// Up lists the replicas in table order.
	Up []int
}

// Load describes the expected requests of a task.
type Load struct {
	// Rate is the requests per second now, and Forecast is those expected over [Situation.Horizon].
	Rate, Forecast float64
	// Prompt and Output are the mean tokens of a request.
	Prompt, Output float64
}

// Situation describes a fleet to a [Chooser]. The controller reuses it: it is valid until Choose returns, and read-only.
type Situation struct {
	Now   time.Duration
	Table *fleet.Table
	// Loads lists the expected requests of each task, and Horizon is the time that forecasts look ahead.
	Loads   []Load
	Horizon time.Duration
	// Held counts, by variant, the requests that wait for a replica to come up.
	Held []int
	// Hosts lists the hosts of the table.
	Hosts []HostState
	// Worth is the utility per second of the fleet as it is, by a fluid estimate for Valued requests per second: the
	// forecast and some headroom.
	Worth, Valued float64
	// Gain returns the utility that a request gains with the host in another layout, at a load of all tasks.
	Gain func(host, layout int, load float64) float64
}

// HostState describes a host of the table. Layouts, Worth, Capacity, Quality, Takes and Barred have an
// element for each layout.
type HostState struct {
	// Busy is the share of it that was in use lately.
	Busy float64
	// Layouts lists what may be up together, and Present is the one that is up or on its way up; −1 is none of
	// them, as on a host whose replicas an operator has unloaded.
	Layouts []Layout
	Present int
	// Since is the time at which Present was chosen, and Moving reports whether the change to it has not ended.
	Since  time.Duration
	Moving bool
	// Worth is the utility per second of the fleet with the host in the layout and all others as they are.
	Worth []float64
	// Capacity is the requests per second that the host answers in time in the layout, all replicas busy, and Quality
	// is the mean utility of a request that the best size of the layout answers in time.
	Capacity, Quality []float64
	// Takes is the time that a change to the layout takes, without that of requests that have to end first.
	Takes []time.Duration
	// First is the part of Takes in which a replica of the layout is up and works on its first answer.
	First []time.Duration
	// Barred explains why a change to the layout is refused now; empty if it is not.
	Barred []string
}

// Change asks for a host in another layout.
type Change struct {
	Host   int // −1 is no change
	Layout int // of [HostState.Layouts]
	// Reason explains it in one line.
	Reason string
}

// None returns no change.
func None(reason string) Change { return Change{Host: -1, Reason: reason} }

// Chooser picks a change: a host and a layout of it, or none, and says why. The controller asks it once a second, and
// again after a change that it has begun. It must return the same for the same sequence of situations, and is not safe for concurrent use.
type Chooser interface {
	Choose(s *Situation) Change
}

// has reports whether the replica is up in the layout.
func (l *Layout) has(replica int) bool { return slices.Contains(l.Up, replica) }
