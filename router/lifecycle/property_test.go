package lifecycle_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// model is what engines really hold, done naively: each does one action at a time, and
// takes the replica's memory from the beginning of a load or a wake to the end of an unload
// or a sleep.
type model struct {
	table  *fleet.Table
	ledger *fleet.Ledger
	state  []fleet.State     // Up, Cold or Warm, by replica
	action []*control.Action // under way, by replica
	newer  []uint64
	forced []bool
	err    error
	broken string // the first thing that an action did which none may do
}

func (m *model) Act(a control.Action) error {
	i := a.Replica
	if m.err != nil {
		return m.err
	}
	if m.action[i] != nil || a.Epoch < m.newer[i] {
		return fmt.Errorf("busy, or epoch %d is older than %d", a.Epoch, m.newer[i])
	}
	down := a.Verb == control.Unload || a.Verb == control.Sleep
	if n := m.ledger.InFlightOn(i); down && n > 0 && !m.forced[i] {
		m.broken = fmt.Sprintf("replica %d: %v with %d requests in flight", i, a.Verb, n)
	}
	from := map[control.Verb][]fleet.State{
		control.Load: {fleet.Cold}, control.Wake: {fleet.Warm}, control.Sleep: {fleet.Up}, control.Unload: {fleet.Up, fleet.Warm},
	}[a.Verb]
	sound := false
	for _, s := range from {
		sound = sound || m.state[i] == s
	}
	if !sound {
		m.broken = fmt.Sprintf("replica %d: %v of what is %v", i, a.Verb, m.state[i])
	}
	m.newer[i], m.action[i] = a.Epoch, &a
	return nil
}

// end is the event that ends the action on the replica.
func (m *model) end(i int, fails bool) control.Event {
	a := m.action[i]
	m.action[i] = nil
	e := control.Event{Replica: i, Action: *a}
	if fails {
		e.Kind, e.Reason = control.ActionFailed, "no"
		return e
	}
	switch a.Verb {
	case control.Load:
		e.Kind, m.state[i] = control.Loaded, fleet.Up
	case control.Wake:
		e.Kind, m.state[i] = control.Woken, fleet.Up
	case control.Sleep:
		e.Kind, m.state[i] = control.Slept, fleet.Warm
	case control.Unload:
		e.Kind, m.state[i] = control.Unloaded, fleet.Cold
	}
	return e
}

// taken is the memory that the host's engines take.
func (m *model) taken(host int) (sum int64) {
	for _, i := range m.table.ReplicasOn(host) {
		if a := m.action[i]; m.state[i] == fleet.Up || a != nil && a.Verb != control.Unload {
			sum += m.table.MemoryOf(i)
		}
	}
	return sum
}

// run is one random history.
type run struct {
	*testing.T
	rng    *rand.Rand
	m      *model
	c      *lifecycle.Controller
	ledger *fleet.Ledger
	leases []fleet.Lease
	now    time.Duration
	past   []control.Event
}

// TestAgainstModel has random orders, requests, failures, delays and hands of others come
// in any order. The memory of hosts is never exceeded, nothing is up that is not
// loaded, nobody's requests are cut off, and at the end all is settled and as the
// ledger says.
func TestAgainstModel(t *testing.T) {
	actions := 0
	for seed := range uint64(60) {
		table := catalogue(t)
		ledger := fleet.NewLedger(table)
		m := &model{table: table, ledger: ledger, state: make([]fleet.State, 5), action: make([]*control.Action, 5), newer: make([]uint64, 5), forced: make([]bool, 5)}
		for i := range m.state {
			m.state[i] = ledger.Placed(i)
		}
		r := &run{T: t, rng: rand.New(rand.NewPCG(seed, 7)), m: m, ledger: ledger}
		// What does not fit at the start is not of the controller's making.
		ledger.Place(4, fleet.Cold)
		m.state[4] = fleet.Cold
		r.c = lifecycle.New(ledger, m, lifecycle.Options{DrainTimeout: 20 * time.Second, ActionTimeout: 40 * time.Second})
		for step := range 1500 {
			r.step()
			r.check(seed, step)
		}
		r.settle(seed)
		for _, e := range m.newer {
			if e > 0 {
				actions++
			}
		}
	}
	if actions < 150 {
		t.Errorf("%d replicas of 300 were acted on: the test does too little", actions)
	}
}

func (r *run) step() {
	i := r.rng.IntN(5)
	switch r.rng.IntN(12) {
	case 0, 1:
		target := []fleet.State{fleet.Up, fleet.Cold, fleet.Warm, fleet.Draining, fleet.Down}[r.rng.IntN(5)]
		o := lifecycle.Order{Force: r.rng.IntN(6) == 0}
		if r.c.Want(i, target, o) == nil {
			r.m.forced[i] = o.Force
		}
	case 2, 3:
		if lease, ok := r.ledger.Begin(i, 0); ok {
			r.leases = append(r.leases, lease)
		}
	case 4, 5:
		if n := len(r.leases); n > 0 {
			k := r.rng.IntN(n)
			r.leases[k].End()
			r.leases[k] = r.leases[n-1]
			r.leases = r.leases[:n-1]
		}
	case 6, 7:
		if r.m.action[i] != nil {
			e := r.m.end(i, r.rng.IntN(4) == 0)
			r.past = append(r.past, e)
			r.c.Observe(e)
		}
	case 8:
		if n := len(r.past); n > 0 { // again, long after
			r.c.Observe(r.past[r.rng.IntN(n)])
		}
	case 9:
		r.ledger.SetUp(i, r.rng.IntN(2) == 0)
	case 10:
		if r.rng.IntN(3) == 0 {
			r.ledger.SetDrained(i, r.rng.IntN(2) == 0)
		}
		r.byHand(i)
	case 11:
		r.m.err = nil
		if r.rng.IntN(5) == 0 {
			r.m.err = errors.New("the actuator refuses")
		}
		r.now += time.Duration(r.rng.IntN(5)) * time.Second
		r.c.Wake(r.now)
		r.m.err = nil
	}
}

// byHand has someone else unload the replica, or put it to sleep, and the controller hear
// of it.
func (r *run) byHand(i int) {
	s := []fleet.State{fleet.Cold, fleet.Warm}[r.rng.IntN(2)]
	if r.m.action[i] == nil && r.m.state[i] == fleet.Up && r.ledger.Placed(i) == fleet.Up && r.rng.IntN(8) == 0 {
		r.m.state[i] = s
		r.c.Observe(control.Event{Kind: control.Changed, Replica: i, State: s})
	}
}

func (r *run) check(seed uint64, step int) {
	r.Helper()
	if r.m.broken != "" {
		r.Fatalf("seed %d, step %d: %s", seed, step, r.m.broken)
	}
	for h, host := range r.m.table.Hosts {
		if taken := r.m.taken(h); taken > host.Memory {
			r.Fatalf("seed %d, step %d: %d bytes are taken on %s, which has %d", seed, step, taken, host.Name, host.Memory)
		}
	}
	for i, s := range r.m.state {
		if placed := r.ledger.Placed(i); placed == fleet.Up && s != fleet.Up {
			r.Fatalf("seed %d, step %d: replica %d is placed up, and really %v", seed, step, i, s)
		}
	}
}

// settle lets everything end, as it does in time.
func (r *run) settle(seed uint64) {
	r.Helper()
	for range 20 {
		for i, a := range r.m.action {
			if a != nil {
				r.c.Observe(r.m.end(i, false))
			}
		}
		r.now += time.Minute
		if r.c.Wake(r.now) == control.Never && r.c.Settled() {
			break
		}
	}
	if !r.c.Settled() {
		r.Fatalf("seed %d: something is stuck", seed)
	}
	r.check(seed, -1)
	for i, s := range r.m.state {
		if r.m.action[i] == nil && r.ledger.Placed(i) != s {
			r.Errorf("seed %d: replica %d is placed %v, and really %v", seed, i, r.ledger.Placed(i), s)
		}
	}
}
