package engines

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// Placed is a replica and the state in which it is wanted: up, warm or cold.
type Placed struct {
	Replica int
	State   fleet.State
}

// placing is the actuator of the lifecycles. An engine that nothing drives has nothing to do:
// its replica is placed at once, and gets requests or none from then on.
type placing struct{ *lifecycles }

// Act implements [control.Actuator]. The controller is the one that acts.
func (p placing) Act(a control.Action) error {
	if p.actuator.Driven(a.Replica) {
		if err := p.engines.StandsBy(); err != nil {
			return err
		}
		return p.actuator.Act(a)
	}
	host := p.engines.table.Replicas[a.Replica].Host
	p.controller.Observe(control.Event{At: p.engines.options.Clock(), Kind: a.Verb.Done(), Replica: a.Replica, Host: host, Action: a})
	return nil
}

// Place has replicas brought into the states, those first that give memory back. What cannot
// be done is in the error, a line each, and does not hold up the others.
func (e *Engines) Place(list []Placed) (err error) {
	x := e.lifecycle
	ordered := slices.Clone(list)
	slices.SortStableFunc(ordered, func(a, b Placed) int { return cmp.Compare(rank(a.State), rank(b.State)) })
	x.runner.Do(func() {
		for _, p := range ordered {
			if x.controller.Status(p.Replica).Target == p.State || x.actuator.Driven(p.Replica) && e.StandsBy() != nil {
				continue // or the acting router does it
			}
			if e := x.controller.Want(p.Replica, p.State, lifecycle.Order{}); e != nil {
				err = errors.Join(err, fmt.Errorf("replicas.%s: cannot be %v: %w", x.name(p.Replica), p.State, e))
			}
		}
	})
	return err
}

// rank is smaller of the states that take less memory.
func rank(s fleet.State) int { return slices.Index([]fleet.State{fleet.Cold, fleet.Warm, fleet.Up}, s) }
