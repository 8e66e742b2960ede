package bands

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/signals"
)

// Replicas runs a [Controller] that moves replicas of a fleet: it wants their states by the claims of
// rebalancing, and measures what they use of their hosts by the requests that they have answered.
//
// It implements [control.Controller], and is used as one is, but for [Replicas.Answered], which any goroutine
// may call.
type Replicas struct {
	*Controller
	table  *fleet.Table
	ledger *fleet.Ledger
	engine lifecycle.Engines
	claims *lifecycle.Claims
	number map[[2]int]int // of the replica by variant and host
	busy   *signals.Busy
	reads  []atomic.Int64 // by replica, of its weights since the last measurement, at most: a batch shares one
	now    time.Duration

	measured time.Duration
	loaded   []time.Duration // by replica, when it was loaded last by a move
	use      [][]float64     // by replica, at the last measurement
}

// worth is the least share of one host that a move must bring below bands and limits. What a
// replica uses differs by some percent from one period to the next, and is no reason to move it.
const worth = 0.04

// The resources that are measured, by index.
const (
	Busy = iota
	Memory
	Bandwidth
)

func resources() []Resource {
	list := DefaultOptions().Resources
	list[Busy].Name, list[Busy].Limit = "busy", 1
	return list
}

// NewReplicas makes a controller of the ledger's replicas. The settings' resources are its own. [Replicas.Claim]
// follows before the first Wake.
func NewReplicas(s Settings, l *fleet.Ledger, b *signals.Busy, e lifecycle.Engines) (*Replicas, error) {
	t := l.Table()
	s.Options.Resources = resources()
	s.Options.Gain = worth / float64(len(t.Hosts))
	if err := s.Options.Validate(); err != nil {
		return nil, fmt.Errorf("cannot make rebalancing: %w", err)
	}
	n := len(t.Replicas)
	x := &Replicas{table: t, ledger: l, busy: b, engine: e, number: map[[2]int]int{}, reads: make([]atomic.Int64, n), loaded: make([]time.Duration, n), use: make([][]float64, n)}
	for i, r := range t.Replicas {
		x.use[i] = make([]float64, len(s.Options.Resources))
		at := [2]int{r.Variant, r.Host}
		if _, taken := x.number[at]; !taken { // a second one there stays where it is
			x.number[at] = i
		}
	}
	x.Controller = New(measured{x}, s)
	return x, nil
}

// Claim has the controller want states by the claims of a lifecycle's controller.
func (x *Replicas) Claim(claim func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims) {
	x.claims = claim(lifecycle.Balancing, x.ended)
}

// Answered counts an answer of the replica with so many tokens.
func (x *Replicas) Answered(replica, tokens int) { x.reads[replica].Add(int64(max(1, tokens))) }

// Use returns what the replica used of its host at the last measurement, by resource, and whether it is loaded.
func (x *Replicas) Use(replica int) (use []float64, loaded bool) {
	return x.use[replica], x.ledger.Placed(replica) != fleet.Cold
}

// Observe implements [control.Controller]. The ends of what the controller wants come by its claims.
func (x *Replicas) Observe(control.Event) {}

// Wake implements [control.Controller].
func (x *Replicas) Wake(now time.Duration) time.Duration {
	x.now = now
	return x.Controller.Wake(now)
}

func (x *Replicas) ended(e control.Event) {
	switch e.Kind {
	case control.Loaded:
		x.loaded[e.Replica] = e.At
	case control.ActionFailed, control.Evicted:
		x.engine.Ordered(control.Action{Verb: control.Load, Replica: e.Replica}, errors.New(e.Reason))
	}
	x.Controller.Observe(e)
}

// measured is the fleet as the controller sees it. It implements [Fleet].
type measured struct{ *Replicas }

// Act implements [control.Actuator].
func (x measured) Act(a control.Action) error {
	if a.Replica < 0 {
		return errors.New("the fleet has no replica of the model on that host")
	}
	err := x.claims.Act(a)
	x.engine.Ordered(a, err)
	return err
}

// Replica implements [Fleet].
func (x measured) Replica(variant, host int) int {
	if i, ok := x.number[[2]int{variant, host}]; ok {
		return i
	}
	return -1
}

// Measure implements [Fleet].
func (x measured) Measure() *Measurement {
	t, since := x.table, x.measured
	x.measured = x.now
	m := &Measurement{Problem: Problem{May: x.may}}
	for h := range t.Hosts {
		host := &t.Hosts[h]
		other := make([]float64, len(resources()))
		other[Memory] = float64(x.claims.Reserved(h))
		m.Problem.Bins = append(m.Problem.Bins, Bin{Capacity: []float64{Busy: 1, Memory: float64(host.Memory), Bandwidth: host.Bandwidth}, Other: other})
	}
	for i := range t.Replicas {
		r := &t.Replicas[i]
		x.measure(i, x.now-max(since, x.loaded[i]))
		number, placed := x.Replica(r.Variant, r.Host), x.ledger.Placed(i)
		switch {
		case placed == fleet.Cold:
		case number != i && (x.claims.First(i) != number || x.ledger.Placed(number) != fleet.Cold):
			for k, u := range x.use[i] {
				m.Problem.Bins[r.Host].Other[k] += u
			}
		default:
			m.Problem.Items = append(m.Problem.Items, Item{Model: r.Variant, Host: r.Host, Fixed: x.fixed(i), Use: slices.Clone(x.use[i])})
			m.Numbers, m.Unknown = append(m.Numbers, number), append(m.Unknown, false)
			m.Moving = append(m.Moving, placed == fleet.Loading || placed == fleet.Draining)
		}
	}
	return m
}

// measure works out what a replica has used in the time that has passed: what waits does not make a host look busier
// than it is.
func (x measured) measure(i int, passed time.Duration) {
	reads := x.reads[i].Swap(0)
	use := x.use[i]
	use[Busy], use[Memory], use[Bandwidth] = 0, float64(x.table.MemoryOf(i)), 0
	if x.ledger.Placed(i) == fleet.Cold || passed <= 0 {
		return
	}
	use[Busy] = x.busy.Replica(i, passed, x.now).Answered
	if model := x.table.ModelOf(x.table.Replicas[i].Variant); model >= 0 {
		use[Bandwidth] = float64(reads) * float64(x.table.Models[model].Memory) / passed.Seconds()
	}
}

// may reports whether the host can get a replica of the variant: nothing of it is loaded there, and nothing of a
// higher rank has its place.
func (x measured) may(variant, host int) bool {
	i := x.Replica(variant, host)
	if i < 0 || !x.engine.Driven(i) || x.claims.Taken(i) {
		return false
	}
	return !slices.ContainsFunc(x.table.ReplicasOn(host), func(j int) bool { return x.claims.First(j) == i && x.ledger.Placed(j) != fleet.Cold })
}

// fixed reports whether a replica stays: it is not up, nothing drives it, or failover or a change of version has
// its place.
func (x measured) fixed(i int) bool {
	return x.ledger.State(i) != fleet.Up || !x.engine.Driven(i) || x.claims.Taken(i)
}
