package replicas

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/signals"
)

// Counted describes a variant whose replicas are counted by the load that is expected.
type Counted struct {
	Variant int
	// Plan is for loads in hosts: what keeps one host busy is 1.
	Plan Plan
	// Least and Most bound how many are wanted; a Most of 0 is all that there may be.
	Least, Most int
}

// Replicas runs a [Controller] that counts replicas of a fleet: it wants their states by the claims of the number of
// replicas, and measures loads by how busy they keep their hosts. What higher ranks hold is not its own: it counts
// what of that is up, and loads and unloads none of it.
//
// It implements [control.Controller], and is used as one is.
type Replicas struct {
	*Controller
	ledger  *fleet.Ledger
	table   *fleet.Table
	busy    *signals.Busy
	engines lifecycle.Engines
	claims  *lifecycle.Claims
	counted []Counted
	period  time.Duration
	loads   []float64       // by what is counted, of the last period
	started int             // replicas that were loaded
	stopped int             // and unloaded
	wants   []*control.Verb // by replica, what is wanted and not over; nil is nothing
}

// NewReplicas makes a controller of the ledger's replicas that is due once a period. [Replicas.Claim] follows before
// the first Wake.
func NewReplicas(list []Counted, period time.Duration, l *fleet.Ledger, b *signals.Busy, e lifecycle.Engines) (*Replicas, error) {
	t := l.Table()
	x := &Replicas{ledger: l, table: t, busy: b, engines: e, counted: list, period: period, loads: make([]float64, len(list)), wants: make([]*control.Verb, len(t.Replicas))}
	var models []Scaled
	for _, c := range list {
		p, err := NewPlanner(c.Plan)
		if err != nil {
			return nil, err
		}
		m := Scaled{Scaler: p, Replicas: slices.Clone(t.ReplicasOf(c.Variant)), Least: c.Least, Most: c.Most}
		if m.Most == 0 {
			m.Most = len(m.Replicas)
		}
		models = append(models, m)
	}
	x.Controller = New(models, period, watched{x})
	return x, nil
}

// Claim has the controller want states by the claims of a lifecycle's controller.
func (x *Replicas) Claim(claim func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims) {
	x.claims = claim(lifecycle.Counts, x.ended)
}

// Status is how a variant stands.
type Status struct {
	Variant             int
	Up, Loading, Wanted int
	// Load is how many hosts the replicas kept busy in the last period, and Expected is how many they are expected to
	// once a replica that is started now is up, with the margin.
	Load, Expected float64
}

// Status returns how each variant stands that is counted.
func (x *Replicas) Status() (list []Status) {
	for i, c := range x.counted {
		s := Status{Variant: c.Variant, Wanted: x.Wanted(i), Load: x.loads[i]}
		s.Up, s.Loading = watched{x}.Count(i)
		if p := x.models[i].Scaler.(*Planner); p.forecaster.Known() > 0 {
			s.Expected = p.Expect(p.steps(p.WarmUp)) * p.Margin()
		}
		list = append(list, s)
	}
	return list
}

// History is the load so far, for forecasts to go on from.
type History struct {
	// Interval is how long each load lasted.
	Interval time.Duration `json:"interval"`
	// Loads are those of each variant, the earliest first.
	Loads map[string][]float64 `json:"loads"`
}

// Known returns of how many intervals the load is known.
func (x *Replicas) Known() (n int) {
	for i := range x.models {
		n += x.models[i].Scaler.(*Planner).forecaster.Known()
	}
	return n
}

// History returns the load so far, to a ten-thousandth of a host.
func (x *Replicas) History() History {
	h := History{Loads: map[string][]float64{}}
	for i, c := range x.counted {
		p := x.models[i].Scaler.(*Planner)
		list := p.forecaster.History()
		for k := range list {
			list[k] = math.Round(list[k]*1e4) / 1e4
		}
		h.Interval, h.Loads[x.table.Variants[c.Variant].Name] = p.Interval, list
	}
	return h
}

// Resume has forecasts go on from the history of an earlier run, which ended so long ago. Since then the load is taken
// to have been as expected. A history of other intervals, or from more than a season ago, is left out. It precedes the
// first Wake.
func (x *Replicas) Resume(h History, ago time.Duration) {
	for i, c := range x.counted {
		p := x.models[i].Scaler.(*Planner)
		missed := int(max(0, ago) / p.Interval)
		list := h.Loads[x.table.Variants[c.Variant].Name]
		if h.Interval != p.Interval || missed > p.Season || len(list) == 0 {
			continue
		}
		p.Learn(list)
		for range missed {
			p.Learn([]float64{p.Expect(1)})
		}
	}
}

// Observe implements [control.Controller]. The ends of what the controller wants come by its claims.
func (x *Replicas) Observe(control.Event) {}

// Wake implements [control.Controller].
func (x *Replicas) Wake(now time.Duration) time.Duration {
	x.busy.Sample(now)
	return min(x.Controller.Wake(now), now+signals.Sampling)
}

// Ended returns how many replicas have been loaded and unloaded.
func (x *Replicas) Ended() (loads, unloads int) { return x.started, x.stopped }

func (x *Replicas) ended(e control.Event) {
	switch e.Kind {
	case control.Loaded:
		x.started++
	case control.Unloaded:
		x.stopped++
	}
	if verb := x.wants[e.Replica]; verb != nil && (e.Kind == control.ActionFailed || e.Kind == control.Evicted) {
		x.engines.Ordered(control.Action{Verb: *verb, Replica: e.Replica}, errors.New(e.Reason))
	}
	x.wants[e.Replica] = nil
	x.Controller.Observe(e)
}

// watched is the fleet as the controller sees it. It implements [Fleet].
type watched struct{ *Replicas }

// Act implements [control.Actuator].
func (x watched) Act(a control.Action) error {
	err := x.claims.Act(a)
	if err == nil {
		x.wants[a.Replica] = &a.Verb
	}
	x.engines.Ordered(a, err)
	return err
}

// Rate implements [Fleet]. What is refused is not seen, but in the requests that wait at engines. Those on the least
// busy hosts are started first from then on, and those on the busiest are stopped first.
func (x watched) Rate(i int, now time.Duration) float64 {
	list := x.models[i].Replicas
	x.loads[i] = 0
	for _, r := range list {
		x.loads[i] += x.busy.Replica(r, x.period, now).Load()
	}
	host := func(r int) float64 { return x.busy.Host(x.table.Replicas[r].Host, x.period, now).Load() }
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(host(a), host(b)), cmp.Compare(a, b)) })
	return x.loads[i]
}

// Count implements [Fleet]. Two replicas that take turns count once.
func (x watched) Count(i int) (up, loading int) {
	for _, r := range x.models[i].Replicas {
		first := x.claims.First(r)
		switch want := x.wants[first]; {
		case first != r && (want != nil || x.ledger.Placed(first) == fleet.Up):
		case want != nil && *want == control.Load:
			loading++
		case want != nil:
		case x.ledger.State(r) == fleet.Up:
			up++
		case x.ledger.Placed(r) == fleet.Loading:
			loading++
		}
	}
	return up, loading
}

// Startable implements [Fleet].
func (x watched) Startable(r int) bool { return x.claims.Idle(r) && x.own(r) }

// Stoppable implements [Fleet].
func (x watched) Stoppable(r int) bool { return x.claims.Up(r) && x.own(r) }

// own reports whether the replica is the controller's to load and unload, and can be reached.
func (x watched) own(r int) bool {
	return x.wants[r] == nil && x.claims.First(r) == r && x.ledger.State(r) != fleet.Down && x.engines.Driven(r) && !x.claims.Taken(r)
}
