// Package control defines controllers, which act at times of their own and not within a
// request: health, lifecycles of replicas, failover, rebalancing. A Controller is a state
// machine with time passed in. The simulator wakes it from its agenda and the server from a
// timer, so the same code runs in both.
package control

import (
	"fmt"
	"math"
	"time"

	"gearshift/router/fleet"
)

// Never is the time of a controller that has nothing due.
const Never time.Duration = math.MaxInt64

// Controller acts at times of its own, and only through the [Actuator] and the ledger that
// it was made with.
//
// Calls come one at a time, with times that never run back. Observe records an event and
// does not act. The caller calls Wake after it, at the event's time, since an event may
// bring the next wake forward. Wake does what is due and returns when to be woken next,
// which is after now, or [Never]. It may be woken earlier than it asked for, and then does
// nothing that is not due.
type Controller interface {
	Observe(e Event)
	Wake(now time.Duration) (next time.Duration)
}

// Kind says what happened.
type Kind uint8

// The kinds of events. The first seven are evidence of a replica's health, the next
// five the ends of actions that an [Actuator] began.
const (
	Broken       Kind = iota // a request broke on the replica
	Refused                  // a request could not be connected
	Answered                 // a request was answered
	Missed                   // a heartbeat did not come in time
	Heartbeat                // one came
	ProbeFailed              // a health probe of the replica failed
	ProbePassed              // one passed
	Loaded                   // the model is loaded, and can take requests
	Unloaded                 // it is no longer loaded
	Slept                    // it sleeps
	Woken                    // it can take requests again
	ActionFailed             // an action came to nothing; Reason says why
	Changed                  // the replica's engine has changed its state without an action
	Evicted                  // what was wanted of the replica was given up for a controller of higher rank
)

var kinds = [...]string{
	"broken", "refused", "answered", "missed", "heartbeat", "probe failed", "probe passed",
	"loaded", "unloaded", "slept", "woken", "action failed", "changed", "evicted",
}

// String returns the kind in words.
func (k Kind) String() string { return name(kinds[:], uint8(k), "kind") }

// Event is something that happened to a replica, or to a host and so to all that is
// there.
type Event struct {
	At   time.Duration
	Kind Kind
	// Replica is an index of the table, or −1 where the event is of the whole host.
	Replica int
	// Host is an index of the table.
	Host int
	// Began is when a request was sent to the replica that was Broken, Refused or Answered.
	Began time.Duration
	// Action is what ended, of the kinds from Loaded to ActionFailed.
	Action Action
	// Want is the number of the proposal that is over by it, of an event for its owner alone.
	Want uint64
	// State is what a replica that was Changed is in now.
	State fleet.State
	// Reason is why, in one line; empty if there is none to report.
	Reason string
}

// Verb is what an action does.
type Verb uint8

// The verbs.
const (
	Load     Verb = iota // from disk until it can take requests
	Unload               // gives its memory back; what it still runs breaks
	Sleep                // stays loaded, to be up again soon; what it still runs breaks
	Wake                 // ends the sleep
	Activate             // begins to take requests, or hands them over to the replica
	Notify               // tells clients where to go
)

var verbs = [...]string{"load", "unload", "sleep", "wake", "activate", "notify"}

// String returns the verb's name.
func (v Verb) String() string { return name(verbs[:], uint8(v), "verb") }

// ends are the events and states to which successful actions lead, by verb.
var ends = [...]struct {
	done Kind
	is   fleet.State
}{Load: {Loaded, fleet.Up}, Unload: {Unloaded, fleet.Cold}, Sleep: {Slept, fleet.Warm}, Wake: {Woken, fleet.Up}}

// Done returns the kind of the event that reports the success of such an action. The verb is
// one that engines carry out: Load, Unload, Sleep or Wake.
func (v Verb) Done() Kind { return ends[v].done }

// Towards returns the verb that brings a replica from one state into another: Up, Warm or Cold.
func Towards(from, to fleet.State) Verb {
	switch {
	case to == fleet.Warm:
		return Sleep
	case to != fleet.Up:
		return Unload
	case from == fleet.Warm:
		return Wake
	}
	return Load
}

// State returns the state in which such a successful action leaves the replica.
func (v Verb) State() fleet.State { return ends[v].is }

func name(names []string, i uint8, of string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s %d", of, i)
}

// Action is one change of a replica. Epoch is that of the placement on which it was decided.
// An actuator refuses an action whose epoch is older than one that it has seen for the
// replica, so that a controller that was cut off does not undo the work of its successor.
type Action struct {
	Verb    Verb
	Replica int
	Epoch   uint64
}

// String returns the action in words.
func (a Action) String() string { return fmt.Sprintf("%s replica %d", a.Verb, a.Replica) }

// Actuator carries out actions. Act begins an action and returns at once; an [Event] later
// reports how it ended. An error means that the action was not begun: no event follows.
type Actuator interface {
	Act(a Action) error
}
