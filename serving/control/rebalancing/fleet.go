package rebalancing

import (
	"errors"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/placement/bands"
)

// fleetOf is the fleet as the controller moves it. It implements [bands.Fleet]. Replicas are those
// of the table, models are variants.
type fleetOf struct{ *Module }

// Act implements [control.Actuator]. A replica that is loaded takes requests at once.
func (f fleetOf) Act(a control.Action) error {
	if a.Verb != control.Load && a.Verb != control.Unload {
		return nil
	}
	if a.Replica < 0 {
		return errors.New("the fleet has no replica of the model on that host")
	}
	name := f.options.Table.Replicas[a.Replica].Name
	if err := f.claims.Act(a); err != nil {
		f.log.Warn("cannot move a replica", "replica", name, "verb", a.Verb.String(), "error", err)
		return err
	}
	f.log.Info("rebalancing", "replica", name, "verb", a.Verb.String())
	return nil
}

// Replica implements [bands.Fleet]; −1 where the table has none.
func (f fleetOf) Replica(variant, host int) int {
	if i, ok := f.replicas[[2]int{variant, host}]; ok {
		return i
	}
	return -1
}

// InFlight implements [bands.Fleet]. An unload drains the replica itself.
func (f fleetOf) InFlight(int) int { return 0 }

// SetDrained implements [bands.Fleet]: see InFlight.
func (f fleetOf) SetDrained(int, bool) {}

// Measure implements [bands.Fleet]. Hosts are busy by how long their requests take alone: what
// waits, or is computed together with others, does not make a host look busier than it is.
func (f fleetOf) Measure() *bands.Measurement {
	now, t := f.clock(), f.options.Table
	since := f.measured
	f.measured = now
	m := &bands.Measurement{Problem: bands.Problem{May: f.may}}
	for h := range t.Hosts {
		x := &t.Hosts[h]
		other := make([]float64, len(resources()))
		other[memory] = float64(f.claims.Reserved(h))
		m.Problem.Hosts = append(m.Problem.Hosts, bands.Host{Capacity: []float64{busy: 1, memory: float64(x.Memory), bandwidth: x.Bandwidth}, Other: other})
	}
	for i := range t.Replicas {
		r := &t.Replicas[i]
		f.measure(i, (now - max(since, f.loaded[i])).Seconds())
		number, placed := f.Replica(r.Variant, r.Host), f.engines.Placed(i)
		switch {
		case placed == fleet.Cold:
		case number != i && (f.claims.First(i) != number || f.engines.Placed(number) != fleet.Cold):
			for k, u := range f.use[i] {
				m.Problem.Hosts[r.Host].Other[k] += u
			}
		default:
			m.Problem.Replicas = append(m.Problem.Replicas, bands.Replica{Model: r.Variant, Host: r.Host, Fixed: f.fixed(i), Use: append([]float64(nil), f.use[i]...)})
			m.Numbers, m.Unknown = append(m.Numbers, number), append(m.Unknown, false)
			m.Moving = append(m.Moving, placed == fleet.Loading || placed == fleet.Draining)
		}
	}
	return m
}

// measure works out what the replica has used in the seconds that have passed since the last time,
// or since it was loaded.
func (f fleetOf) measure(i int, passed float64) {
	work, reads := time.Duration(f.counts[i].work.Swap(0)), f.counts[i].reads.Swap(0)
	use := f.use[i]
	use[busy], use[memory], use[bandwidth] = 0, float64(f.options.Table.MemoryOf(i)), 0
	if f.engines.Placed(i) == fleet.Cold || passed <= 0 {
		return
	}
	use[busy] = work.Seconds() / passed
	if model := f.options.Table.ModelOf(f.options.Table.Replicas[i].Variant); model >= 0 {
		use[bandwidth] = float64(reads) * float64(f.options.Table.Models[model].Memory) / passed
	}
}

// may reports whether the host can get a replica of the variant: nothing of it is loaded there, and nothing of a
// higher rank has its place.
func (f fleetOf) may(variant, host int) bool {
	i := f.Replica(variant, host)
	if i < 0 || f.engines.Driven(i) == "" || f.claims.Taken(i) {
		return false
	}
	return !slices.ContainsFunc(f.options.Table.ReplicasOn(host), func(j int) bool { return f.claims.First(j) == i && f.engines.Placed(j) != fleet.Cold })
}

// fixed reports whether a replica stays: it is not up, nothing drives it, or failover or a change of version has
// its place.
func (f fleetOf) fixed(i int) bool {
	return f.engines.LifecycleOf(i).State != fleet.Up || f.engines.Driven(i) == "" || f.claims.Taken(i)
}
