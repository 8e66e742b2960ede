package balance

import (
	"math/rand/v2"
	"time"

	"gearshift/router/signals"
)

// Knowledge is what one client, or one router, knows of the replicas of a model.
type Knowledge struct {
	// Own counts its own requests in flight, by replica.
	Own []int32
	// Said is what the replicas have last said of themselves, and At when; below zero where
	// they have said nothing yet.
	Said []signals.Counters
	At   []time.Duration
}

// NewKnowledge is that of as many replicas, of which nothing is known.
func NewKnowledge(replicas int) *Knowledge {
	k := &Knowledge{Own: make([]int32, replicas), Said: make([]signals.Counters, replicas), At: make([]time.Duration, replicas)}
	for i := range k.At {
		k.At[i] = -1
	}
	return k
}

// Hear takes in what a replica has said.
func (k *Knowledge) Hear(replica int, c signals.Counters, now time.Duration) {
	k.Said[replica], k.At[replica] = c, now
}

// Chooser chooses the replica of a model for a client by what that knows. It is pure: the
// random numbers are the caller's, and so is the knowledge.
type Chooser interface {
	// Polled returns which replicas are asked for their counters before the choice, appended
	// to buf; none if the choice needs no answer.
	Polled(k *Knowledge, random *rand.Rand, buf []int) []int
	// Choose returns a replica. Those polled have answered, as far as they could: what they
	// said is in k.
	Choose(k *Knowledge, polled []int, random *rand.Rand) int
}

// Sampled draws replicas at random, each set equally likely, and chooses the least loaded;
// any of equals. One is a random choice, two are the power of two choices (META-3).
type Sampled struct {
	// K is how many are drawn; all if there are no more.
	K       int
	Counter signals.Counter
	// Poll asks the drawn ones for their counters first. Without, the choice is by what they
	// have said with their answers to the client's earlier requests (META-4).
	Poll bool
}

// Polled implements [Chooser].
func (s Sampled) Polled(k *Knowledge, random *rand.Rand, buf []int) []int {
	if !s.Poll || s.K < 2 {
		return buf
	}
	return s.draw(len(k.Own), random, buf)
}

// Choose implements [Chooser].
func (s Sampled) Choose(k *Knowledge, polled []int, random *rand.Rand) int {
	var room [8]int
	drawn := polled
	if len(drawn) == 0 {
		drawn = s.draw(len(k.Own), random, room[:0])
	}
	best, ties := drawn[0], 1
	for _, i := range drawn[1:] {
		switch order := s.Counter.Compare(&k.Said[i], &k.Said[best]); {
		case order < 0:
			best, ties = i, 1
		case order == 0:
			if ties++; random.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// draw appends K distinct replicas of n, each set equally likely, by Floyd's algorithm.
func (s Sampled) draw(n int, random *rand.Rand, buf []int) []int {
	first := len(buf)
	if s.K >= n {
		for i := range n {
			buf = append(buf, i)
		}
		return buf
	}
	for j := n - s.K; j < n; j++ {
		x := random.IntN(j + 1)
		for _, taken := range buf[first:] {
			if taken == x {
				x = j
				break
			}
		}
		buf = append(buf, x)
	}
	return buf
}
