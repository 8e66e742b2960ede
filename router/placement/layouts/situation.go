// Package layouts decides which replicas of a host are up together. The replicas of a host need more memory than it
// has, so that they take turns: a large size gives its memory to smaller ones, which answer more requests at a time. A
// [Chooser] picks a layout for a host by what it sees, a rule or a learned policy; a controller has the host follow,
// within an operator's limits.
package layouts

import (
	"time"

	"gearshift/router/fleet"
)

// Layout is a set of replicas of one host that are up together, within its memory.
type Layout struct {
	Host int
	// Up lists the replicas in table order.
	Up []int
}

// Load is what is expected of a task.
type Load struct {
	// Rate is the requests per second now, and Forecast is those expected over [Situation.Horizon].
	Rate, Forecast float64
	// Prompt and Output are the mean tokens of a request.
	Prompt, Output float64
}

// Situation is what a [Chooser] sees. The controller reuses it: it is valid until Choose returns, and read-only.
type Situation struct {
	Now   time.Duration
	Table *fleet.Table
	// Loads lists what is expected of each task, and Horizon is how far ahead forecasts look.
	Loads   []Load
	Horizon time.Duration
	// Held counts the requests, by variant, that wait for one that is not up.
	Held []int
	// Hosts lists the hosts of the table.
	Hosts []HostState
	// Worth is the utility per second of the fleet as it is, by a fluid estimate for Valued requests per second: the
	// forecast and some headroom.
	Worth, Valued float64
}

// HostState describes how a host of the table stands. Layouts, Worth, Capacity, Quality, Takes and Barred have an
// element for each layout.
type HostState struct {
	// Busy is the share of it that was in use lately.
	Busy float64
	// Layouts lists what may be up together, and Present is the one that is up or on its way up; −1 is none of
	// them, as of a host whose replicas an operator has unloaded.
	Layouts []Layout
	Present int
	// Since is when Present was chosen, and Moving reports whether the host is on its way there.
	Since  time.Duration
	Moving bool
	// Worth is the utility per second of the fleet with the host in the layout and all others as they are.
	Worth []float64
	// Capacity is the requests per second that the host answers in time in the layout, all replicas busy, and Quality
	// is the mean utility of a request that the best size of the layout answers in time.
	Capacity, Quality []float64
	// Takes is how long the host takes to get there, not counting requests that have to end first.
	Takes []time.Duration
	// Barred is why the host cannot be brought into the layout now; empty if it can. A change to it is refused.
	Barred []string
}

// Change is what a [Chooser] wants: a host in another layout.
type Change struct {
	Host   int // −1 is no change
	Layout int // of [HostState.Layouts]
	// Reason is why, in one line.
	Reason string
}

// None returns no change.
func None(reason string) Change { return Change{Host: -1, Reason: reason} }

// Chooser picks a change: a host and a layout of it, or none, and says why. It is asked once a second and at a change of
// load. It must return the same for the same sequence of situations, and is not safe for concurrent use.
type Chooser interface {
	Choose(s *Situation) Change
}

// has reports whether the replica is up in the layout.
func (l *Layout) has(replica int) bool {
	for _, r := range l.Up {
		if r == replica {
			return true
		}
	}
	return false
}
