// Package states keeps what controllers know across restarts of a router: of failover, of versions, and of how many
// replicas there are. A [Store] is where: [File] is one, and holds a file open for as long as controllers run.
package states

import (
	"errors"
	"time"
)

// Store keeps the states of controllers, one of each kind.
type Store interface {
	// Open opens the state of a kind of controllers and begins a term: one more than the last, and at least
	// [FirstTerm], so that epochs do not run back when a store is lost. A state that cannot be written is read all
	// the same, see [State.Trouble]. The error is an [ErrHeld] while another controller has the state.
	Open(kind string, now time.Time) (State, error)
}

// State is the open state of a kind of controllers. Its methods may be called from any goroutine.
type State interface {
	// Term returns the number of this run.
	Term() uint64
	// Path returns where the state is, for messages.
	Path() string
	// Last returns the state that the run before has left; nil if there is none.
	Last() []byte
	// Trouble names a fault that has not kept the state from being opened: it is older than the last, or cannot be
	// written. It is empty without one.
	Trouble() string
	// Save replaces the state, and returns once that survives a crash.
	Save(state []byte) error
	// Close lets another controller have the state.
	Close() error
}

// Shared is a [State] of several routers, one of which acts at a time. Before a router's turn, its term is 0, its
// last state is empty, and Save returns [ErrStandsBy].
type Shared interface {
	State
	// Follow calls f with each [Turn]. If f fails in the turn in which this router is to act, it stands by.
	Follow(f func(Turn) error)
}

// Turn reports a change of a shared state.
type Turn struct {
	// Acts reports whether this router begins to act, in the term. It saves nothing and gives no order before f
	// has returned. Otherwise another router has saved the state, or this one no longer acts.
	Acts bool
	Term uint64
	Last []byte // the state; nil if there is none
}

// ErrStandsBy reports that only the acting router may do this.
var ErrStandsBy = errors.New("this router stands by: another one acts")

// The kinds of controllers that keep a state.
const (
	Failover = "failover"
	Rollout  = "rollout"
	Replicas = "replicas"
)

var kinds = []string{Failover, Rollout, Replicas}

// ErrHeld is the error of a state that another controller has open.
var ErrHeld = errors.New("another controller holds it; stop that one first, or give this one a file of its own")

// zero is when terms begin to be counted: they fit 31 bits for a lifetime.
var zero = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// FirstTerm returns the term of a controller that begins now and has no state: the seconds since 2025.
func FirstTerm(now time.Time) uint64 { return uint64(max(1, int64(now.Sub(zero)/time.Second))) }
