// Package health decides which replicas should get requests. From how their requests end
// and from the results of probes it ejects replicas, and lets them back in steps: a few
// trials first, then a growing share.
//
// A [Monitor] is driven by events with their times, as the ledger is, and has no clock of
// its own. Its owner probes the engines and keeps its timer.
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

// String returns the state's name in metrics and in the status of the server.
func (s State) String() string { return states[s] }

// Failure is how a replica failed a request. Its text is the label of metrics.
type Failure string

// The failures. A client that leaves, or asks for something impossible, causes none.
const (
	// Connect: no connection could be made, so nothing was sent.
	Connect Failure = "connect"
	// Broken: the connection broke, or the response was not an answer.
	Broken Failure = "broken"
	// ServerError: it answered with a server error (5xx).
	ServerError Failure = "status"
	// Timeout: it was too slow to answer, or fell silent.
	Timeout Failure = "timeout"
	// ErrorAlone: it answered with an error a request that another of its variant answered.
	ErrorAlone Failure = "error_alone"
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
	// Alone: requests in a row failed, and others answered those.
	Alone Reason = "error_alone"
	// Silent: it accepted work and answered nothing.
	Silent Reason = "silent"
	// Unlisted: its server has other models, not the replica's.
	Unlisted Reason = "model"
	// Gone: a failover controller has given up its host.
	Gone Reason = "host"
)

// Reasons lists all reasons.
var Reasons = []Reason{Unreachable, Unwell, Failing, Unreliable, Alone, Silent, Unlisted, Gone}

// hard reports whether probes, where there are any, decide when the reason is gone.
func (r Reason) hard() bool { return r == Unreachable || r == Unwell }

// Status is a replica's state at a moment, with its reason and its bounds.
type Status struct {
	State State
	// Since is when the state began.
	Since time.Duration
	// Why is the reason of the ejection from which it comes back; empty for a replica that
	// was never ejected, or has come back.
	Why Reason
	// Cap bounds its requests in flight while it comes back. Zero is no cap.
	Cap int
	// Busy is whether it has lately refused requests for want of room, and gets fewer.
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
	// Spared is whether there was no step: the replica would have been ejected, but too
	// many are out already.
	Spared bool
	// Note says in words why the replica is [Unlisted], where that is the reason.
	Note string
	// Lost is whether there was no step: the replica's server is gone, and the requests
	// that it has will not be answered.
	Lost bool
}

// Ejects reports whether the change ejects the replica.
func (c Change) Ejects() bool { return c.To == Ejected && c.From != Ejected }
