package tail

import (
	"math"
	"time"

	"gearshift/env/clients"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/rollout"
)

// rolled is the fleet as the controller of versions sees it: the old version of a model and
// the new one are two models of it. What a location gives the new version of its requests becomes
// a part of all requests for the name, by the cores of hosts.
type rolled struct {
	*lifecycle.Claims
	deployed   *clients.Fleet
	config     *clients.Config
	old, next  int // the versions
	controller *rollout.Controller
	parts      []float64 // by replica
	given      [2]float64
	busy       []float64 // by host, smoothed
	looked     time.Duration
	order      time.Duration // when the new version is ordered
	ordered    bool
	done       time.Duration // when it was everywhere; zero before
}

var (
	_ rollout.Fleet      = (*rolled)(nil)
	_ control.Controller = (*rolled)(nil)
)

// roll makes a controller that replaces the old version of a model by the next one in the list, from a
// time on.
func roll(f *clients.Fleet, c *clients.Config, old, next int, order time.Duration, o rollout.Options) (*rolled, error) {
	x := &rolled{deployed: f, config: c, old: old, next: next, order: order, parts: make([]float64, len(c.Models)*len(c.Hosts)), busy: make([]float64, len(c.Hosts))}
	m := rollout.Versioned{Name: c.Models[old].Name, Version: c.Models[old].Version}
	for _, h := range c.Models[old].Replicas {
		m.Locations = append(m.Locations, rollout.Location{Host: h, Replicas: [2]int{f.Replica(old, h), f.Replica(next, h)}})
		x.parts[f.Replica(old, h)] = 1
	}
	o.Report = func(s rollout.Step) {
		if s.Kind == rollout.StepDone {
			x.done = s.At
		}
	}
	var err error
	if x.controller, err = rollout.New([]rollout.Versioned{m}, o, x); err != nil {
		return nil, err
	}
	x.Claims = f.Claim(lifecycle.Versions, x.controller.Observe)
	for _, at := range m.Locations {
		f.Hide(at.Replicas[1], true)
	}
	return x, nil
}

// Observe implements [control.Controller]. The ends of what the controller wants come by its claims.
func (x *rolled) Observe(control.Event) {}

// Wake implements [control.Controller].
func (x *rolled) Wake(now time.Duration) time.Duration {
	x.look(now)
	if !x.ordered && now >= x.order {
		x.ordered = true
		if err := x.controller.Roll(0, x.config.Models[x.next].Version, now); err != nil {
			panic(err) // the fleet has the version
		}
	}
	next := min(x.controller.Wake(now), now+x.config.Period)
	if !x.ordered {
		next = min(next, x.order)
	}
	return next
}

// remembered is over how long the utilisation of hosts is smoothed, as a router does it.
const remembered = 10 * time.Second

func (x *rolled) look(now time.Duration) {
	passed := (now - x.looked).Seconds()
	weight := max(1-math.Exp(-passed/remembered.Seconds()), passed/max(now.Seconds(), 1e-9)) // at first a plain mean
	for h := range x.busy {
		x.busy[h] += (x.deployed.HostLoad(h).CPU/x.config.Hosts[h].Compute - x.busy[h]) * weight
	}
	x.looked = now
}

// State implements [rollout.Fleet].
func (x *rolled) State(r int) fleet.State { return x.deployed.State(r) }

// Lost implements [rollout.Fleet]: no host is lost.
func (x *rolled) Lost(int) bool { return false }

// InFlight implements [rollout.Fleet].
func (x *rolled) InFlight(r int) int { return x.deployed.InFlight(r) }

// Busy implements [rollout.Fleet].
func (x *rolled) Busy(host int) float64 { return x.busy[host] }

// Hold implements [rollout.Fleet]: each version has replicas of its own. It takes the place of [lifecycle.Claims.Hold].
func (x *rolled) Hold(int, string) {}

// Count implements [rollout.Fleet]: both versions do the same here, and are not compared.
func (x *rolled) Count(int) rollout.Count { return rollout.Count{} }

// Weigh implements [rollout.Fleet].
func (x *rolled) Weigh(r int, part float64) {
	x.deployed.Hide(r, part == 0)
	x.parts[r] = part
	var given [2]float64
	for _, h := range x.config.Models[x.old].Replicas {
		for k, model := range []int{x.old, x.next} {
			given[k] += x.config.Hosts[h].Compute * x.parts[x.deployed.Replica(model, h)]
		}
	}
	if given != x.given && given[0]+given[1] > 0 {
		x.given = given
		x.deployed.SetPart(x.old, given[0])
		x.deployed.SetPart(x.next, given[1])
	}
}
