package tier

import (
	"time"

	"gearshift/env/agenda"
	"gearshift/router/fleet"
)

// HostLoad is what was measured of a host in the last period.
type HostLoad struct {
	// CPU is how many cores were busy in the mean. One that waits for memory is busy too.
	CPU float64
	// Bandwidth is how much of its memory's was in use in the mean.
	Bandwidth float64
	// Memory is what its replicas take now, in bytes.
	Memory int64
}

// ReplicaLoad is what was measured of a replica in the last period: its part of its host's
// load.
type ReplicaLoad struct {
	CPU, Bandwidth float64
	// Requests is how many it answered per second.
	Requests float64
}

// ModelLoad counts the requests for a model that ended in the last period.
type ModelLoad struct {
	Answered, Timeouts, Failed int
	// Took is how long answers took, together.
	Took time.Duration
}

// answered counts an answer.
func (d *deployment) answered(took, timeout time.Duration) {
	d.load.Answered++
	d.load.Took += took
	if timeout > 0 && took > timeout {
		d.load.Timeouts++
	}
}

// measured is what a host has done since the last period ended.
type measured struct {
	busy, moved float64
	last        HostLoad
}

func (m *measured) advance(passed float64, h *host) {
	m.busy += passed * min(h.cores, float64(len(h.running)))
	m.moved += passed * h.memory.moving
}

// measure ends a period.
func (r *run) measure(now time.Duration) {
	seconds := r.Period.Seconds()
	x := Moment{At: now, Loads: r.result.Loads - r.deployed.loads, Unloads: r.result.Unloads - r.deployed.unloads}
	r.deployed.loads, r.deployed.unloads = r.result.Loads, r.result.Unloads
	for i := range r.hosts {
		h := &r.hosts[i]
		h.advance(now)
		m := &h.measured
		m.last = HostLoad{CPU: m.busy / seconds, Bandwidth: m.moved / seconds}
		m.busy, m.moved = 0, 0
		x.Utilisation = append(x.Utilisation, m.last.CPU/h.cores)
		if h.memory.bandwidth > 0 {
			x.Bandwidth = append(x.Bandwidth, m.last.Bandwidth/h.memory.bandwidth)
		}
		r.attribute(i)
	}
	for i := range r.deployed.models {
		d := &r.deployed.models[i]
		x.Requests, x.Timeouts, x.Failed = x.Requests+d.load.Answered+d.load.Failed, x.Timeouts+d.load.Timeouts, x.Failed+d.load.Failed
		d.last, d.load = d.load, ModelLoad{}
	}
	r.result.Series = append(r.result.Series, x)
	r.share(now)
	if now+r.Period <= r.Length {
		r.agenda.Add(agenda.Item{At: now + r.Period, Kind: periodEnds})
	}
}

// attribute divides what the host did among its replicas by the work that they did.
func (r *run) attribute(host int) {
	seconds, load := r.Period.Seconds(), r.hosts[host].measured.last
	work := r.deployed.loading[host]
	r.deployed.loading[host] = 0
	for model := range r.Models {
		work += r.slot(model, host).served
	}
	for model := range r.Models {
		s := r.slot(model, host)
		s.last = ReplicaLoad{Bandwidth: s.served * r.Models[model].Bandwidth / seconds, Requests: float64(s.answered) / seconds}
		if work > 0 {
			s.last.CPU = load.CPU * s.served / work
		}
		s.served, s.answered = 0, 0
	}
}

// Hosts returns how many hosts there are.
func (t *Tier) Hosts() int { return len(t.r.hosts) }

// Replica returns the number of a model's replica on a host, as actions have it.
func (t *Tier) Replica(model, host int) int { return model*len(t.r.hosts) + host }

// Model returns the model of a replica.
func (t *Tier) Model(replica int) int { return replica / len(t.r.hosts) }

// Host returns the host of a replica.
func (t *Tier) Host(replica int) int { return replica % len(t.r.hosts) }

// State returns the state that a replica is in.
func (t *Tier) State(replica int) fleet.State {
	s := &t.r.deployed.slots[replica]
	if s.state == fleet.Up && s.drained {
		return fleet.Draining
	}
	return s.state
}

// InFlight returns how many requests a replica has.
func (t *Tier) InFlight(replica int) int { return t.r.deployed.slots[replica].running }

// SetDrained has a replica take no more requests, or take them again.
func (t *Tier) SetDrained(replica int, drained bool) {
	t.r.deployed.slots[replica].drained = drained
	t.count(t.Model(replica))
}

// SetPart has a model get a part of the requests for its name, relative to its other versions,
// of which one at least must have more than 0.
func (t *Tier) SetPart(model int, part float64) {
	t.r.deployed.models[model].part = part
	t.r.share(t.r.deployed.now)
}

// HostLoad returns what was measured of a host in the last period.
func (t *Tier) HostLoad(host int) HostLoad {
	load := t.r.hosts[host].measured.last
	load.Memory = t.r.hosts[host].memory.taken
	return load
}

// ReplicaLoad returns what was measured of a replica in the last period.
func (t *Tier) ReplicaLoad(replica int) ReplicaLoad { return t.r.deployed.slots[replica].last }

// ModelLoad returns how a model's requests ended in the last period.
func (t *Tier) ModelLoad(model int) ModelLoad { return t.r.deployed.models[model].last }
