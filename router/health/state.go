// Package health knows which replicas should get requests. It hears how their
// requests end and what probes find, takes replicas out of the choice, and lets
// them back by degrees: a few trials first, then a growing share.
//
// A [Monitor] is moved by events with their times, as the ledger is, and has no
// clock of its own. Whoever holds it asks the engines and keeps its timer.
package health

import "time"

// State of a replica.
type State uint8

// The states.
const (
	// Up takes its full share of requests.
	Up State = iota
	// Ejected takes none.
	Ejected
	// HalfOpen takes a few at a time, on trial.
	HalfOpen
	// SlowStart takes a share that grows.
	SlowStart
)

var states = [...]string{"up", "ejected", "half_open", "slow_start"}

// States lists all states.
var States = []State{Up, Ejected, HalfOpen, SlowStart}

// String is the state as metrics and the status have it.
func (s State) String() string { return states[s] }

// Failure is how a replica failed a request. Its text is the label of metrics.
type Failure string

// The failures. What a client did, by leaving or by asking for something
// impossible, is none.
const (
	// Connect: no connection could be made, so nothing was sent.
	Connect Failure = "connect"
	// Broken: the connection broke, or what came is no answer.
	Broken Failure = "broken"
	// Status: it answered with a server error (5xx).
	Status Failure = "status"
	// Timeout: it was too slow to answer, or fell silent.
	Timeout Failure = "timeout"
)

// Reason is why a replica was ejected. Its text is the label of metrics.
type Reason string

// The reasons.
const (
	// Unreachable: a request or a probe could not be connected.
	Unreachable Reason = "connect"
	// Unwell: probes failed.
	Unwell Reason = "probe"
	// Failing: requests failed in a row.
	Failing Reason = "failures"
	// Unreliable: too large a share of requests failed.
	Unreliable Reason = "failure_share"
	// Silent: it accepted work and answered nothing.
	Silent Reason = "silent"
	// Unlisted: its server has other models, not the replica's.
	Unlisted Reason = "model"
)

// Reasons lists all reasons.
var Reasons = []Reason{Unreachable, Unwell, Failing, Unreliable, Silent, Unlisted}

// hard says that probes tell when it is over, where there are probes.
func (r Reason) hard() bool { return r == Unreachable || r == Unwell }

// Standing is a replica's state at a moment.
type Standing struct {
	State State
	// Since is when the state began.
	Since time.Duration
	// Why is the reason of the ejection that the state stems from; empty for a
	// replica that was never out, or has been up again for a while.
	Why Reason
	// Cap bounds its requests in flight while it comes back. Zero is no cap.
	Cap int
	// Busy says that it has lately refused requests for want of room, and gets fewer.
	Busy bool
	// Note says in words why the replica is [Unlisted]; empty if it is not.
	Note string
}

// Change is a replica's step from one state to another.
type Change struct {
	Replica  int
	From, To State
	Why      Reason
	// Cooldown until trials, of an ejection.
	Cooldown time.Duration
	// Spared says that there was no step: the replica would have been ejected, had
	// not too many been out already.
	Spared bool
	// Note says in words why the replica is [Unlisted], where that is the reason.
	Note string
	// Lost says that there was no step: nothing is there any more where the replica was,
	// and what it was given will not be answered.
	Lost bool
}

// Ejects says that the replica goes out with this change.
func (c Change) Ejects() bool { return c.To == Ejected && c.From != Ejected }
