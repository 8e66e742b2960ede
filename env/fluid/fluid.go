// Package fluid is a law of hosts for loads of days, in which one unit a second stands for many requests: what
// arrives in a second is a number, and waits in one queue.
package fluid

import (
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/router/fleet"
)

// Pool is the [env.Law] of replicas that share one queue. It counts whole seconds, and only when it is read or
// changes: what changes within a second holds from the second's beginning. It takes no single requests.
type Pool struct {
	// Arrivals lists what arrives in each second, which pools share; the pool gets the part Share.
	Arrivals []float64
	Share    float64
	// Capacity sets what one replica answers in a second.
	Capacity float64
	// Patience sets how long something waits. What would wait longer is refused.
	Patience time.Duration

	total  Total
	states []fleet.State // by slot
	up     int
	held   int // replicas that are not cold
	queued float64
	second int // the next that is not counted
}

var _ env.Law = (*Pool)(nil)

// Total counts what a pool has had since its beginning.
type Total struct {
	Arrived, Refused float64
	// Asked sums the load of each second, as a part of what the pool's replicas answered in one, and Used sums the
	// part that they did answer.
	Asked, Used float64
	// Held sums the seconds of replicas that were up or starting.
	Held float64
}

// Less returns what has come since an earlier total.
func (t Total) Less(o Total) Total {
	return Total{t.Arrived - o.Arrived, t.Refused - o.Refused, t.Asked - o.Asked, t.Used - o.Used, t.Held - o.Held}
}

// Count counts the seconds until a time, and returns what there was in all of them.
func (p *Pool) Count(until time.Duration) Total {
	end := min(int(until/time.Second), len(p.Arrivals))
	if end <= p.second {
		return p.total
	}
	capacity, queued := p.Capacity*float64(p.up), p.queued
	most := capacity * p.Patience.Seconds()
	var arrived, answered, refused float64
	for _, x := range p.Arrivals[p.second:end] {
		x *= p.Share
		arrived += x
		if queued += x; queued <= capacity {
			answered += queued
			queued = 0
			continue
		}
		answered += capacity
		if queued -= capacity; queued > most {
			refused += queued - most
			queued = most
		}
	}
	p.total.Held += float64(p.held * (end - p.second))
	p.queued, p.second = queued, end
	p.total.Arrived, p.total.Refused = p.total.Arrived+arrived, p.total.Refused+refused
	if capacity > 0 {
		p.total.Asked, p.total.Used = p.total.Asked+arrived/capacity, p.total.Used+answered/capacity
	}
	return p.total
}

// Weigh gives the pool another part of what arrives.
func (p *Pool) Weigh(share float64, now time.Duration) {
	p.Count(now)
	p.Share = share
}

// Replicas returns how many replicas are up, and how many are starting.
func (p *Pool) Replicas() (up, starting int) { return p.up, p.held - p.up }

// State returns the state of a slot.
func (p *Pool) State(slot int) fleet.State {
	if slot >= len(p.states) {
		return fleet.Cold
	}
	return p.states[slot]
}

// Turn implements [env.Turner].
func (p *Pool) Turn(slot int, is fleet.State, now time.Duration) {
	p.Count(now)
	for len(p.states) <= slot {
		p.states = append(p.states, fleet.Cold)
	}
	p.add(p.states[slot], -1)
	p.add(is, 1)
	p.states[slot] = is
}

// add counts a replica in a state.
func (p *Pool) add(is fleet.State, n int) {
	if is == fleet.Up {
		p.up += n
	}
	if is != fleet.Cold && is != fleet.Down {
		p.held += n
	}
}

// Submit implements [env.Law].
func (p *Pool) Submit(int, engine.Sequence, time.Duration) {
	panic("fluid: a pool takes no single requests")
}

// Next implements [env.Law]: nothing of a pool ends by itself.
func (p *Pool) Next() (time.Duration, bool) { return 0, false }

// Step implements [env.Law].
func (p *Pool) Step(dst []engine.Event) []engine.Event { return dst }

// Break implements [env.Law]. What waits is lost with the host; the replicas that are left answer it where one stops.
func (p *Pool) Break(slot int, now time.Duration, _ func(id uint64)) {
	if p.Count(now); slot < 0 {
		p.total.Refused, p.queued = p.total.Refused+p.queued, 0
	}
}

// Each implements [env.Law].
func (p *Pool) Each(int, func(id uint64, generated int)) {}
