package failover

import (
	"errors"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// Hosts is what [Replicas] asks for, other than states of replicas. Hosts and replicas are those of the table.
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

// Replicas runs a [Controller] whose assignments are to replicas of a fleet. Applications that have one variant
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
	held    [][]Assignment  // by replica: those for which it is loaded, or being loaded
	orders  []order         // that have not ended
	kept    []int           // what is held
	lost    []bool          // by host: its replicas are out
	refused []time.Duration // by host, when a connection was refused last
	own     []bool          // by replica: it was loaded last by an order
	woken   bool
	changed bool // something has happened that a state saved before does not have
	waits   bool // orders wait until they are saved
	given   uint64
	saved   uint64
}

// order is one that its replica has to do something for.
type order struct {
	Order
	replica int
	number  uint64 // 0: it is over
	want    uint64 // the number of what is wanted for it; 0 before
}

// NewReplicas makes a controller of a problem whose hosts are those of the table, and its variants those of
// replicas there. [Replicas.Claim] follows before the first Wake.
func NewReplicas(p *Problem, o Options, t *fleet.Table, h Hosts) (*Replicas, error) {
	if !slices.EqualFunc(p.Hosts, t.Hosts, func(a, b fleet.Host) bool { return a.Name == b.Name }) {
		return nil, errors.New("failover: the hosts are not those of the fleet")
	}
	x := &Replicas{table: t, hosts: h, held: make([][]Assignment, len(t.Replicas)), own: make([]bool, len(t.Replicas)), lost: make([]bool, len(t.Hosts)), refused: make([]time.Duration, len(t.Hosts))}
	report := o.Report
	o.Report = func(s Step) { x.follow(s, report) }
	o.Ask = h.Ask
	var err error
	x.Controller, err = New(p, o, x)
	return x, err
}

// replica returns that of an assignment; −1 if there is none.
func (x *Replicas) replica(a Assignment) int {
	name := x.problem.Variant(a).Name
	for _, r := range x.table.ReplicasOn(a.Host) {
		if x.table.Variants[x.table.Replicas[r].Variant].Name == name {
			return r
		}
	}
	return -1
}

// share has a replica be loaded for an assignment too, and release has it no longer be.
func (x *Replicas) share(r int, a Assignment) {
	if !slices.Contains(x.held[r], a) {
		x.held[r], x.replanned = append(x.held[r], a), true
	}
}

func (x *Replicas) release(r int, a Assignment) {
	x.held[r], x.replanned = slices.DeleteFunc(x.held[r], func(b Assignment) bool { return b == a }), true
}

// free has a replica be loaded for none.
func (x *Replicas) free(r int) { x.held[r], x.replanned = nil, true }

// Claim has the controller want states by the claims of a lifecycle's controller, and brings the fleet to what it
// takes for loaded: what an earlier run had loaded, as found says.
func (x *Replicas) Claim(claim func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims, found func(replica int)) {
	x.claims = claim(lifecycle.Failover, x.reported)
	for _, a := range x.Loaded() {
		if r := x.replica(a); r >= 0 {
			if x.share(r, a); !x.claims.Up(r) {
				found(x.claims.Next(r))
			}
		}
	}
}

// Out reports whether a host's replicas get no requests, since it is lost.
func (x *Replicas) Out(host int) bool { return x.lost[host] }

// Observe implements [control.Controller]. Evidence is of hosts; the ends of orders come by the claims.
func (x *Replicas) Observe(e control.Event) {
	if e.Kind > control.ProbePassed {
		return
	}
	if e.Replica = -1; e.Kind == control.Refused {
		x.refused[e.Host] = e.At
	}
	x.Controller.Observe(e)
}

// Wake implements [control.Controller].
func (x *Replicas) Wake(now time.Duration) time.Duration {
	x.now = max(x.now, now)
	if !x.woken {
		x.woken = true
		for i := range x.Controller.hosts { // that were lost when an earlier run ended
			if x.Controller.hosts[i].condition == Lost {
				x.leave(i)
			}
		}
	}
	x.reconcileOrders()
	due := x.Controller.Wake(now)
	if x.reconcileOrders() {
		due = min(due, now+1)
	}
	x.hold()
	return due
}

// follow takes the replicas of hosts out, and gives them requests again.
func (x *Replicas) follow(s Step, report func(Step)) {
	x.changed = true
	switch s.Kind {
	case StepLost:
		x.leave(s.Host)
	case StepReturned:
		x.hosts.Poll(s.Host) // what it has now is for it to say
		x.giveBack(s.Host)   // what is loaded there answers; what is to be loaded there waits longer
	case StepFalseAlarm:
		if !x.refusing(s.Host, s.At) {
			x.giveBack(s.Host)
		}
	case StepUsable:
		x.giveBack(s.Host)
	}
	if report != nil {
		report(s)
	}
}

// refusing reports whether the host has refused connections lately, though its agent reports: it
// may be reached at another address than it listens at.
func (x *Replicas) refusing(host int, now time.Duration) bool {
	at := x.refused[host]
	return at > 0 && now-at < x.options.ReturnAfter
}

func (x *Replicas) leave(host int) {
	x.lost[host] = true
	x.hosts.Leave(host, x.now)
}

func (x *Replicas) giveBack(host int) {
	x.lost[host] = false
	x.hosts.Return(host, x.now)
}
