package rollout

import (
	"slices"
	"sync"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
)

// split says which replicas are hidden from which requests. Each request draws a number from 0 to
// 1, and each location in change shows it one of its two replicas, by their parts.
type split struct {
	rules []rule
}

// rule is about the requests of a location.
type rule struct {
	replicas [2]int
	second   float64 // the part of the requests that see the second one
	neither  bool    // none of them sees either
	others   []int
}

// split works out what is hidden now.
func (x *Replicas) split() {
	s := &split{}
	for _, at := range x.locations {
		a, b := at.replicas[0], at.replicas[1]
		r := rule{replicas: at.replicas, neither: x.parts[a] == 0, others: at.others}
		changing := false
		if b >= 0 {
			r.second, r.neither = x.parts[b], x.parts[a]+x.parts[b] == 0
			changing = x.ledger.Placed(a) != fleet.Cold && x.ledger.Placed(b) != fleet.Cold || slices.Contains(x.changing, a)
		}
		if changing || r.neither {
			s.rules = append(s.rules, r)
		}
	}
	if len(s.rules) == 0 {
		s = nil
	}
	x.hidden.Store(s)
}

// Hide returns the replicas that the request is not to be given. A replica whose requests nothing
// else could answer is never among them.
func (x *Replicas) Hide(r *fleet.Request) (list []int) {
	s := x.hidden.Load()
	if s == nil {
		return nil
	}
	key := r.ID
	if r.Session != 0 {
		key = r.Session // all requests of a session see one version
	}
	drawn := splitmix.Unit(splitmix.Next(key))
	for i := range s.rules {
		at := &s.rules[i]
		switch {
		case at.neither:
			for _, own := range at.replicas {
				if own >= 0 && slices.ContainsFunc(at.others, x.answers) {
					list = append(list, own)
				}
			}
		case drawn < at.second:
			list = x.hideFor(list, at.replicas[0], at.replicas[1])
		default:
			list = x.hideFor(list, at.replicas[1], at.replicas[0])
		}
	}
	return list
}

// hideFor adds the replica, if the other one answers.
func (x *Replicas) hideFor(list []int, replica, other int) []int {
	if x.answers(other) {
		return append(list, replica)
	}
	return list
}

func (x *Replicas) answers(replica int) bool { return x.ledger.State(replica) == fleet.Up }

// counter counts what a replica has answered.
type counter struct {
	mu    sync.Mutex // protects count
	count Count
}

func (c *counter) add(failed bool, seconds float64) {
	c.mu.Lock()
	c.count.Add(failed, seconds)
	c.mu.Unlock()
}

func (c *counter) get() Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}
