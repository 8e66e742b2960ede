package env

import (
	"fmt"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Beside is the fleet of an episode, which a follower shares with the requests that are routed and with jobs. Its own
// requests are batches ([Simulator.BeginBatch]) whose IDs have [OfBeside]. They go on for as long as there are others.
type Beside struct {
	*Simulator
	Ledger *fleet.Ledger
	Seed   uint64 // of the episode
}

// OfBeside marks the IDs of requests of a follower beside others.
const OfBeside = 1 << 62

// Lease takes a place for a batch of a task, which waits in the engine where all are taken.
func (b *Beside) Lease(replica, task int, now time.Duration) fleet.Lease {
	return placeOf(b.Ledger, replica, task, now)
}

// placeOf takes a place for a batch, which waits in the engine where all are taken.
func placeOf(l *fleet.Ledger, replica, task int, now time.Duration) fleet.Lease {
	lease, ok := l.Begin(replica, task)
	for v := new(fleet.View); !ok; {
		if l.View(now, v); !v.Uncapped(replica) {
			break
		}
		lease, ok = l.BeginOver(v, fleet.Lease{}, replica, task)
	}
	return lease
}

// Broke has controllers know of a batch that is lost with its replica.
func (b *Beside) Broke(replica int, began, now time.Duration) {
	b.observe(control.Event{At: now, Kind: control.Broken, Replica: replica, Began: began})
}

// share has jobs and a follower act on an idle simulator that has a router.
func (s *Simulator) share(c *Config, l *fleet.Ledger, seed uint64) (err error) {
	if c.Jobs != nil {
		j, err := c.Jobs(seed)
		if err != nil {
			return fmt.Errorf("cannot make jobs: %w", err)
		}
		s.attach(j, l)
	}
	if c.Beside == nil {
		return nil
	}
	s.shared = true
	s.follower, err = c.Beside(&Beside{s, l, seed})
	return err
}

// besides reports whether a request is of a follower beside others.
func (s *Simulator) besides(id uint64) bool { return s.shared && id&(ofJobs|OfBeside) == OfBeside }

// follows reports whether a request is of the follower.
func (s *Simulator) follows(id uint64) bool {
	return s.follower != nil && (!s.shared || s.besides(id))
}

// left counts that a request of the follower has ended.
func (s *Simulator) left(id uint64) {
	if s.besides(id) {
		s.beside--
		s.departed++
	} else {
		s.ended++
	}
}

// Beside returns the follower that shares the episode's fleet; nil if there is none.
func (e *Environment) Beside() Follower {
	if e.sim == nil || !e.sim.shared {
		return nil
	}
	return e.sim.follower
}
