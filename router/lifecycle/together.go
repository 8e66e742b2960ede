package lifecycle

import (
	"fmt"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// others returns the replicas that sleep and wake with the replica.
func (c *Controller) others(i int) []int {
	if c.options.Together == nil {
		return nil
	}
	return c.options.Together[i]
}

// drainOthers has the requests of all that are to sleep with the replica end.
func (c *Controller) drainOthers(i int) {
	for _, j := range c.others(i) {
		r := &c.replicas[j]
		if c.ledger.Placed(j) != fleet.Up || r.phase != settled {
			continue
		}
		r.phase, r.target, r.order, r.since, r.failed, r.begun = draining, fleet.Warm, c.replicas[i].order, c.ledger.EpochOf(j), nil, false
		c.drain(j)
	}
}

// stayUp gives up the sleep of those that would take the replica with them.
func (c *Controller) stayUp(i int) {
	for _, j := range c.others(i) {
		if r := &c.replicas[j]; r.phase == draining && r.target == fleet.Warm {
			c.settle(j, fleet.Up, fmt.Errorf("%s was not put to sleep: %s is wanted up, and they are models of one engine", c.table.Replicas[j].Name, c.table.Replicas[i].Name))
		}
	}
}

// sleepers returns the replicas that the verb takes requests from: the replica, and those that sleep
// with it.
func (c *Controller) sleepers(i int, verb control.Verb) []int {
	all := []int{i}
	if verb != control.Sleep {
		return all
	}
	for _, j := range c.others(i) {
		if c.ledger.Placed(j) == fleet.Up {
			all = append(all, j)
		}
	}
	return all
}

// inFlight returns the requests in flight on the replicas.
func (c *Controller) inFlight(replicas []int) (n int) {
	for _, i := range replicas {
		n += c.options.InFlight(i)
	}
	return n
}

// reserveAll places the replicas as draining, and reports whether it could. Otherwise none is.
func (c *Controller) reserveAll(replicas []int) bool {
	for k, i := range replicas {
		if k > 0 {
			c.replicas[i].since = c.ledger.EpochOf(i)
		}
		if !c.reserve(i, fleet.Draining) {
			for _, j := range replicas[:k] {
				c.settle(j, fleet.Up, c.replicas[i].failed)
			}
			return false
		}
	}
	return true
}

// lead has the replica wait for the end of another's sleep, with which it falls asleep.
func (c *Controller) lead(i int) {
	r := &c.replicas[i]
	r.phase, r.verb, r.from, r.target, r.led = acting, control.Sleep, fleet.Up, fleet.Warm, true
	r.begun, r.until = true, control.Never
}

// settleOthers places those that have fallen asleep or woken with the replica, or would have.
func (c *Controller) settleOthers(i int, verb control.Verb, s fleet.State, err error) {
	if verb != control.Sleep && verb != control.Wake {
		return
	}
	for _, j := range c.others(i) {
		switch {
		case c.replicas[j].led:
			c.settle(j, s, err)
		case err == nil && verb == control.Wake && c.ledger.Placed(j) == fleet.Warm:
			c.changed(j, s)
		}
	}
}
