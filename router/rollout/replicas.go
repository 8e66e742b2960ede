package rollout

import (
	"slices"
	"sync/atomic"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/signals"
)

// Replicas runs a [Controller] whose locations are replicas of a fleet: it wants their states by the claims
// of changes of version, and shows requests one of two replicas that take turns.
//
// It implements [control.Controller], and is used as one is, but for [Replicas.Hide],
// [Replicas.Failed] and [Replicas.Answered], which any goroutine may call.
type Replicas struct {
	*Controller
	ledger    *fleet.Ledger
	table     *fleet.Table
	name      func(replica int, m *Versioned, version string)
	use       *signals.Busy
	now       time.Duration
	claims    *lifecycle.Claims
	counts    []counter
	locations []turns   // of all models
	live      []int     // replicas of models that are updated in real time, which stay
	changing  []int     // a replica of each location that is being changed
	versioned []bool    // by replica: its version changes
	parts     []float64 // by replica, of the requests of its location
	hidden    atomic.Pointer[split]
	marked    bool // views show replicas with a new version
	changed   bool // something has happened that a state saved before does not have
}

// turns is a location as its requests see it.
type turns struct {
	model    *Versioned
	replicas [2]int
	others   []int // replicas of other locations of the model
}

// NewReplicas makes a controller of models whose replicas are those of the ledger, and of hosts that are as busy
// as measured. Name has a replica's model be called by a version from its next load on; empty: it has none.
// [Replicas.Claim] follows before the first Wake.
func NewReplicas(models []Versioned, o Options, l *fleet.Ledger, use *signals.Busy, name func(replica int, m *Versioned, version string)) (*Replicas, error) {
	t := l.Table()
	n := len(t.Replicas)
	x := &Replicas{ledger: l, table: t, use: use, name: name, counts: make([]counter, n), versioned: make([]bool, n), parts: make([]float64, n)}
	for i := range models {
		x.find(&models[i])
	}
	report := o.Report
	o.Report = func(s Step) {
		x.changed = true
		if report != nil {
			report(s)
		}
	}
	var err error
	x.Controller, err = New(models, o, seen{x})
	return x, err
}

// find notes where a model answers.
func (x *Replicas) find(m *Versioned) {
	var all []int
	for _, at := range m.Locations {
		all = append(all, at.Replicas[0], at.Replicas[1])
	}
	for _, at := range m.Locations {
		own := turns{model: m, replicas: at.Replicas}
		for _, r := range all {
			if r >= 0 && r != at.Replicas[0] && r != at.Replicas[1] {
				own.others = append(own.others, r)
			}
		}
		for _, r := range at.Replicas {
			if r >= 0 {
				x.versioned[r] = !m.RealTime
			}
		}
		x.locations = append(x.locations, own)
		if x.parts[at.Replicas[0]] = 1; m.RealTime {
			x.live = append(x.live, at.Replicas[0])
		}
	}
}

// Claim has the controller want states by the claims of a lifecycle's controller. Found is called with replicas
// that an earlier run, of which the controller has resumed the state, had up, and the others of their locations.
func (x *Replicas) Claim(claim func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims, found func(replica int, s fleet.State)) {
	x.claims = claim(lifecycle.Versions, x.Controller.Observe)
	for _, at := range x.locations {
		if at.replicas[1] >= 0 {
			x.claims.TakeTurns(at.replicas[0], at.replicas[1])
		}
	}
	x.hold()
	for _, at := range x.locations {
		if first := at.replicas[0]; x.ledger.Placed(first) == fleet.Up && x.parts[first] == 0 {
			found(first, fleet.Cold)
			found(at.replicas[1], fleet.Up) // what the engines have is for them to say
		}
	}
	x.split()
}

// hold holds what is being changed, and has locations be loaded next as the controller has them.
func (x *Replicas) hold() {
	x.changing = x.Changing()
	x.claims.Hold(x.live, x.changing)
	for _, r := range x.Active() {
		x.claims.Turn(r)
	}
}

// Observe implements [control.Controller]. The ends of what the controller wants come by its claims.
func (x *Replicas) Observe(control.Event) {}

// Wake implements [control.Controller].
func (x *Replicas) Wake(now time.Duration) time.Duration {
	x.now = now
	x.use.Sample(now)
	next := min(x.Controller.Wake(now), now+signals.Sampling)
	x.hold()
	x.split()
	x.mark()
	return next
}

// Changed reports whether something has happened since the last call that a state saved before does not have.
func (x *Replicas) Changed() (again bool) {
	again, x.changed = x.changed, false
	return again
}

// Failed counts a failure of the replica, whether another answers the request or none.
func (x *Replicas) Failed(replica int) { x.counts[replica].add(true, 0) }

// Answered counts an answer of the replica, and how long it took.
func (x *Replicas) Answered(replica int, took time.Duration) {
	if x.versioned[replica] {
		x.counts[replica].add(false, took.Seconds())
	}
}

// Answers returns what the replica has answered so far.
func (x *Replicas) Answers(replica int) Count { return x.counts[replica].get() }

// Utilisation returns how busy the host has been lately.
func (x *Replicas) Utilisation(host int) float64 {
	return x.use.Host(host, signals.Lately, x.now).Share()
}

// seen is the fleet as the controller sees it. It implements [Fleet].
type seen struct{ *Replicas }

// Act implements [Fleet].
func (x seen) Act(a control.Action) error { return x.claims.Act(a) }

// State implements [Fleet]. What is not loaded on a host that is down is cold there too.
func (x seen) State(r int) fleet.State {
	if x.ledger.Placed(r) == fleet.Cold {
		return fleet.Cold
	}
	return x.ledger.State(r)
}

// Lost implements [Fleet].
func (x seen) Lost(host int) bool {
	return !slices.ContainsFunc(x.table.ReplicasOn(host), func(r int) bool { return x.ledger.State(r) != fleet.Down })
}

// InFlight implements [Fleet].
func (x seen) InFlight(r int) int { return x.ledger.InFlightOn(r) }

// Fits implements [Fleet].
func (x seen) Fits(r int) bool { return x.claims.Fits(r) }

// Busy implements [Fleet].
func (x seen) Busy(host int) float64 { return x.Utilisation(host) }

// Hold implements [Fleet].
func (x seen) Hold(r int, version string) {
	for _, at := range x.locations {
		if at.replicas[0] == r || at.replicas[1] == r {
			x.name(r, at.model, version)
		}
	}
	x.changed = true
}

// Weigh implements [Fleet].
func (x seen) Weigh(r int, part float64) {
	x.parts[r] = part
	x.split()
}

// Count implements [Fleet].
func (x seen) Count(r int) Count { return x.Answers(r) }
