package config

import (
	"cmp"
	"time"

	"gearshift/internal/faults"
)

// PhaseTimeouts bound the phases of one attempt at a replica. As a replica's
// own, a zero stands for the server's.
type PhaseTimeouts struct {
	// Connect bounds the time to connect, TLS included. The backend's transport
	// keeps it; all others the server does.
	Connect time.Duration `yaml:"connect,omitempty"`
	// Header bounds the wait for the answer's header, from dispatch on. Of an
	// answer in one piece that is the whole work.
	Header time.Duration `yaml:"header,omitempty"`
	// FirstToken bounds the wait for a stream's first event, from dispatch on.
	// The announcement of an answer, and a comment, are none.
	FirstToken time.Duration `yaml:"first_token,omitempty"`
	// Idle bounds each later wait for more of the answer.
	Idle time.Duration `yaml:"idle,omitempty"`
}

// Or is the timeouts with those that are zero filled in.
func (t PhaseTimeouts) Or(otherwise PhaseTimeouts) PhaseTimeouts {
	return PhaseTimeouts{
		Connect: cmp.Or(t.Connect, otherwise.Connect), Header: cmp.Or(t.Header, otherwise.Header),
		FirstToken: cmp.Or(t.FirstToken, otherwise.FirstToken), Idle: cmp.Or(t.Idle, otherwise.Idle),
	}
}

// Negative names the timeouts that make no sense, by their YAML keys.
func (t PhaseTimeouts) Negative() (keys []string) {
	for p, d := range t.each() {
		if d < 0 {
			keys = append(keys, Phases[p])
		}
	}
	return keys
}

func (t PhaseTimeouts) each() []time.Duration {
	return []time.Duration{t.Connect, t.Header, t.FirstToken, t.Idle}
}

// Timeouts bound the work on a request.
type Timeouts struct {
	PhaseTimeouts `yaml:",inline"`
	// Total bounds the whole of it, all attempts together.
	Total time.Duration `yaml:"total"`
}

func defaultTimeouts() Timeouts {
	return Timeouts{
		PhaseTimeouts: PhaseTimeouts{
			Connect: 5 * time.Second, Header: 10 * time.Minute, FirstToken: 2 * time.Minute, Idle: time.Minute,
		},
		Total: 10 * time.Minute,
	}
}

func (t Timeouts) validate() error {
	var found faults.List
	for p, d := range append(t.each(), t.Total) {
		found.If(d <= 0, "timeouts.%s: %v must be positive", Phases[p], d)
	}
	return found.Err()
}

// Phase is a part of the work on a request that has a time of its own.
type Phase uint32

// The phases.
const (
	PhaseConnect Phase = iota
	PhaseHeader
	PhaseFirstToken
	PhaseIdle
	PhaseTotal
)

// Phases are the names of the phases, as keys and metrics have them.
var Phases = [...]string{"connect", "header", "first_token", "idle", "total"}

// Overdue is the cause of a context whose request spent too long in a phase.
type Overdue Phase

// Error implements error.
func (o Overdue) Error() string { return "timeout: " + Phases[o] }

// Timeout reports that the error is a timeout, as those of net are.
func (Overdue) Timeout() bool { return true }

// Code is the error's, as clients see it.
func (o Overdue) Code() string { return Phases[o] + "_timeout" }

// Message is the error's, for people.
func (o Overdue) Message() string {
	return [...]string{
		"no connection to the replica could be made in time",
		"the replica did not begin to answer in time",
		"the replica did not send the first token in time",
		"the replica fell silent within its answer",
		"the request's whole time is over",
	}[o]
}
