package clients

import "time"

// HostLoad holds what was measured of a host in the last period.
type HostLoad struct {
	// CPU counts the cores that were busy in the mean. One that waits for memory is busy too.
	CPU float64
	// Bandwidth says how much of its memory's was in use in the mean.
	Bandwidth float64
	// Memory is what its replicas take now, in bytes.
	Memory int64
}

// ReplicaLoad holds what was measured of a replica in the last period: its part of its host's
// load.
type ReplicaLoad struct {
	CPU, Bandwidth float64
	// Requests counts those that it answered per second.
	Requests float64
}

// ModelLoad counts the requests for a model that ended in the last period.
type ModelLoad struct {
	Answered, Timeouts, Failed int
	// Took sums how long answers took, together.
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

// Measure implements [env.Follower]: it ends a period.
func (r *run) Measure(now time.Duration) {
	if now > r.Length {
		return
	}
	seconds := r.Period.Seconds()
	x := Moment{At: now, Loads: r.result.Loads - r.deployed.loads, Unloads: r.result.Unloads - r.deployed.unloads}
	r.deployed.loads, r.deployed.unloads = r.result.Loads, r.result.Unloads
	for i, h := range r.hosts {
		h.Advance(now)
		load := HostLoad{CPU: h.Used / seconds, Bandwidth: h.Moved / seconds}
		h.Used, h.Moved, r.measured[i] = 0, 0, load
		x.Utilisation = append(x.Utilisation, load.CPU/h.Cores)
		if h.Bandwidth > 0 {
			x.Bandwidth = append(x.Bandwidth, load.Bandwidth/h.Bandwidth)
		}
	}
	r.attribute(seconds)
	for i := range r.deployed.models {
		d := &r.deployed.models[i]
		x.Requests, x.Timeouts, x.Failed = x.Requests+d.load.Answered+d.load.Failed, x.Timeouts+d.load.Timeouts, x.Failed+d.load.Failed
		d.last, d.load = d.load, ModelLoad{}
	}
	r.result.Series = append(r.result.Series, x)
	r.share(now)
}

// attribute divides what hosts did among their replicas by the work that these did.
func (r *run) attribute(seconds float64) {
	work := r.deployed.loading // by host
	for i := range r.deployed.replicas {
		work[r.deployed.replicas[i].host] += r.deployed.replicas[i].served
	}
	for i := range r.deployed.replicas {
		x := &r.deployed.replicas[i]
		x.last = ReplicaLoad{Bandwidth: x.served * r.Models[x.model].Bandwidth / seconds, Requests: float64(x.answered) / seconds}
		if work[x.host] > 0 {
			x.last.CPU = r.measured[x.host].CPU * x.served / work[x.host]
		}
		x.served, x.answered = 0, 0
	}
	clear(work)
}

// HostLoad returns what was measured of a host in the last period.
func (f *Fleet) HostLoad(host int) HostLoad {
	load := f.r.measured[host]
	load.Memory = f.r.sim.Taken(host)
	return load
}

// ReplicaLoad returns what was measured of a replica in the last period.
func (f *Fleet) ReplicaLoad(replica int) ReplicaLoad { return f.r.deployed.replicas[replica].last }

// ModelLoad returns how a model's requests ended in the last period.
func (f *Fleet) ModelLoad(model int) ModelLoad { return f.r.deployed.models[model].last }
