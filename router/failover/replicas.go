package failover

import (
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// Hosts is what [Replicas] asks for beside the states of replicas. Hosts and replicas are those of the table.
type Hosts interface {
	// Leave takes the replicas of a host that is lost out, and Return gives them requests again.
	Leave(host int, now time.Duration)
	Return(host int, now time.Duration)
	// Poll has the host asked what it has loaded, since it is back.
	Poll(host int)
	// Ask has the host asked whether it is there; see [Options.Ask].
	Ask(host int)
	// Driven reports whether anything loads and unloads the replica.
	Driven(replica int) bool
}

// Replicas runs a [Controller] whose instances are replicas of a fleet. Applications that have one variant
// on a host share its replica, which is loaded for the first of them and unloaded after the last. What the
// controller orders is wanted by the claims of failover; what is loaded for it, and what it keeps room for,
// is held by them.
//
// It implements [control.Controller], and is used as one is: not concurrently.
type Replicas struct {
	*Controller
	table   *fleet.Table
	hosts   Hosts
	claims  *lifecycle.Claims
	hostOf  []int // by server, its index in the table
	server  []int // by host, its index in the system; −1 of one that is in no system
	slots   []slot
	slotOf  []int           // by instance, its replica; −1 where there is none
	orders  []order         // that have not ended
	kept    []int           // scratch
	lost    []bool          // by server: its replicas are out
	refused []time.Duration // by server, when a connection was refused last
	woken   bool
	changed bool // something has happened that a state saved before does not have
	waits   bool // orders wait until they are saved
	given   uint64
	saved   uint64
}

// slot is a replica, which several instances may share.
type slot struct {
	host int
	held []int // instances that are loaded, or being loaded
}

// order is an action of an instance that its replica has to do something for.
type order struct {
	control.Action
	slot   int
	number uint64 // 0: it is over
	want   uint64 // the number of what is wanted for it; 0 before
}

func (s *slot) hold(instance int) {
	if !slices.Contains(s.held, instance) {
		s.held = append(s.held, instance)
	}
}

func (s *slot) release(instance int) {
	s.held = slices.DeleteFunc(s.held, func(id int) bool { return id == instance })
}

// NewReplicas makes a controller of a system whose servers are hosts of the table, and its variants those of
// replicas there. [Replicas.Claim] follows before the first Wake.
func NewReplicas(s *System, o Options, t *fleet.Table, h Hosts) (*Replicas, error) {
	x := &Replicas{
		table: t, hosts: h, server: make([]int, len(t.Hosts)), slots: make([]slot, len(t.Replicas)), slotOf: make([]int, s.Instances()),
		lost: make([]bool, len(s.Servers)), refused: make([]time.Duration, len(s.Servers)),
	}
	for h := range x.server {
		x.server[h] = -1
	}
	for i := range s.Servers {
		name := s.Servers[i].Name
		h := slices.IndexFunc(t.Hosts, func(x fleet.Host) bool { return x.Name == name })
		if h < 0 {
			return nil, fmt.Errorf("failover: there is no host %q", name)
		}
		x.hostOf = append(x.hostOf, h)
		x.server[h] = i
	}
	for r := range x.slots {
		x.slots[r].host = t.Replicas[r].Host
	}
	for id := range x.slotOf {
		app, variant, server := s.Of(id)
		name := s.Applications[app].Variants[variant].Name
		x.slotOf[id] = slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool {
			return r.Host == x.hostOf[server] && t.Variants[r.Variant].Name == name
		})
	}
	report := o.Report
	o.Report = func(s Step) { x.follow(s, report) }
	o.Ask = func(server int) { h.Ask(x.hostOf[server]) }
	var err error
	x.Controller, err = New(s, o, x)
	return x, err
}

// Claim has the controller want states by the claims of a lifecycle's controller, and brings the fleet to what it
// takes for loaded: what an earlier run had loaded, as found says.
func (x *Replicas) Claim(claim func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims, found func(replica int)) {
	x.claims = claim(lifecycle.Failover, x.reported)
	for _, id := range x.Loaded() {
		if r := x.slotOf[id]; r >= 0 {
			if x.slots[r].hold(id); !x.claims.Up(r) {
				found(x.claims.Next(r))
			}
		}
	}
}

// Host returns the host of a server, and Server the server of a host; −1 if it is none.
func (x *Replicas) Host(server int) int { return x.hostOf[server] }

// Server returns the server that a host is; −1 if it is none.
func (x *Replicas) Server(host int) int {
	if host < 0 || host >= len(x.server) {
		return -1
	}
	return x.server[host]
}

// Out reports whether a server's replicas get no requests, since it is lost.
func (x *Replicas) Out(server int) bool { return x.lost[server] }

// Observe implements [control.Controller]. Evidence is of hosts; the ends of orders come by the claims.
func (x *Replicas) Observe(e control.Event) {
	if e.Kind > control.ProbePassed || x.Server(e.Host) < 0 {
		return
	}
	e.Host, e.Replica = x.server[e.Host], -1
	if e.Kind == control.Refused {
		x.refused[e.Host] = e.At
	}
	x.Controller.Observe(e)
}

// Wake implements [control.Controller].
func (x *Replicas) Wake(now time.Duration) time.Duration {
	x.now = max(x.now, now)
	if !x.woken {
		x.woken = true
		for i := range x.servers { // that were lost when an earlier run ended
			if x.servers[i].condition == Lost {
				x.leave(i)
			}
		}
	}
	x.reconcileOrders(now)
	due := x.Controller.Wake(now)
	if x.reconcileOrders(now) {
		due = min(due, now+1)
	}
	x.hold()
	return due
}

// follow takes the replicas of servers out, and gives them requests again.
func (x *Replicas) follow(s Step, report func(Step)) {
	x.changed = true
	switch s.Kind {
	case StepLost:
		x.leave(s.Server)
	case StepReturned:
		x.hosts.Poll(x.hostOf[s.Server]) // what it has now is for it to say
		x.giveBack(s.Server)             // what is loaded there answers; what is to be loaded there waits longer
	case StepFalseAlarm:
		if !x.refusing(s.Server, s.At) {
			x.giveBack(s.Server)
		}
	case StepUsable:
		x.giveBack(s.Server)
	}
	if report != nil {
		report(s)
	}
}

// refusing reports whether the server has refused connections lately, though its agent reports: it
// may be reached at another address than it listens at.
func (x *Replicas) refusing(server int, now time.Duration) bool {
	at := x.refused[server]
	return at > 0 && now-at < x.options.ReturnAfter
}

func (x *Replicas) leave(server int) {
	x.lost[server] = true
	x.hosts.Leave(x.hostOf[server], x.now)
}

func (x *Replicas) giveBack(server int) {
	x.lost[server] = false
	x.hosts.Return(x.hostOf[server], x.now)
}
