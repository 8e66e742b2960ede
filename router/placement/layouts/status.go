package layouts

import "time"

// Status describes a controller.
type Status struct {
	// Shadow reports whether changes are only chosen.
	Shadow bool
	// Reason explains the last choice.
	Reason string
	// Changes counts those that have begun, or would have, and Failed the actions that have failed.
	Changes, Failed int
	// Expected is the requests per second of each task that are expected.
	Expected []float64
	// Utility is the estimated utility of a request with the layouts as they are.
	Utility  float64
	Hosts    []HostStatus
	Replicas []ReplicaStatus
}

// HostStatus describes a host.
type HostStatus struct {
	HostState
	// Reason explains its layout; empty for the first.
	Reason string
	// Failure explains the failure of the last action, and Retry is the time of the next try; empty after a success.
	Failure string
	Retry   time.Duration

	worth, valued float64 // of the fleet as it is
}

// Gain returns the utility that a request would gain if the host had the layout, by the estimate.
func (h *HostStatus) Gain(layout int) float64 { return (h.Worth[layout] - h.worth) / h.valued }

// ReplicaStatus describes a replica that layouts decide.
type ReplicaStatus struct {
	Replica int
	// Up reports whether it is part of its host's layout.
	Up bool
	Resting
	// Gain is the utility that a request would gain in another layout: the best one with the replica if it is not up,
	// and the best one without it if it is.
	Gain float64
	// Choice reports whether there is such a layout.
	Choice bool
}

// Status describes the controller. It is valid until the next Wake.
func (c *Controller) Status() Status {
	s := &c.situation
	out := Status{Shadow: c.options.Shadow, Reason: c.reason, Changes: c.changes, Failed: c.failed}
	valued := max(s.Valued, 1e-9)
	for i := range s.Loads {
		out.Expected = append(out.Expected, s.Loads[i].Forecast)
	}
	out.Utility = s.Worth / valued
	for h := range c.hosts {
		x := &c.hosts[h]
		out.Hosts = append(out.Hosts, HostStatus{HostState: s.Hosts[h], Reason: x.reason, Failure: x.why, Retry: x.retry, worth: s.Worth, valued: valued})
		for _, r := range c.table.ReplicasOn(h) {
			if c.decided(r) {
				out.Replicas = append(out.Replicas, c.replicaStatus(r, valued))
			}
		}
	}
	return out
}

func (c *Controller) replicaStatus(r int, valued float64) ReplicaStatus {
	h := c.table.Replicas[r].Host
	state := &c.situation.Hosts[h]
	out := ReplicaStatus{Replica: r, Resting: c.resting[r]}
	out.Up = state.Present >= 0 && state.Layouts[state.Present].has(r)
	for i := range state.Layouts {
		if state.Layouts[i].has(r) == out.Up {
			continue
		}
		if gain := (state.Worth[i] - c.situation.Worth) / valued; !out.Choice || gain > out.Gain {
			out.Gain, out.Choice = gain, true
		}
	}
	return out
}

// Ended returns how many changes have begun, and how many actions have failed.
func (c *Controller) Ended() (changes, failed int) { return c.changes, c.failed }

// Layouts returns those of a host.
func (c *Controller) Layouts(host int) []Layout { return c.hosts[host].layouts }
