package balance

import (
	"math/rand/v2"
	"time"

	"gearshift/router/signals"
)

// Chooser chooses the replica of a model for a client by what that knows. It holds no state:
// the random numbers are the caller's, and so is the knowledge, in which a rule keeps what it
// learns. Its methods allocate nothing. Calls about one client may not overlap.
type Chooser interface {
	// Polled appends to polled the replicas that are asked for their counters next. Those
	// that polled has already have answered, as far as they could: what they said is in k. It
	// is called until it appends none, so that a rule can ask one replica at a time.
	Polled(k *Knowledge, now time.Duration, random *rand.Rand, polled []int) []int
	// Choose returns a replica.
	Choose(k *Knowledge, polled []int, now time.Duration, random *rand.Rand) int
}

// Prober is a [Chooser] that asks replicas without waiting for them: what they say is of use
// to later requests.
type Prober interface {
	// Probed appends the replicas to ask now that a request has been sent.
	Probed(k *Knowledge, now time.Duration, random *rand.Rand, buf []int) []int
}

// Learner is a [Chooser] that learns from how long answers took.
type Learner interface {
	Answered(k *Knowledge, replica int, took, now time.Duration)
}

// Listener is a [Chooser] that learns from what replicas say in more ways than [Knowledge]
// does. Heard is called once k has what they say.
type Listener interface {
	Heard(k *Knowledge, replica int, c *signals.Counters, by Source, now time.Duration)
}

// Follower is a [Chooser] that keeps loads in addition to [Knowledge.Said]. Counted is called when so
// many more of the client's own requests are on a replica than were counted there, or fewer.
type Follower interface {
	Counted(k *Knowledge, replica, more int)
}

// Rememberer is a [Chooser] that keeps more than what replicas said last. Memory returns what
// it keeps of a model, once for each k, at its full size.
type Rememberer interface {
	Memory(k *Knowledge) any
}

// Source is how a client comes to hear what a replica says of itself.
type Source uint8

// The sources.
const (
	// WithAnswer is with the answer to a request.
	WithAnswer Source = iota
	// Polled is because it was asked before a choice.
	Polled
	// Probed is because it was asked beside a request.
	Probed
	// Published is that all clients are told the same at once.
	Published
)
