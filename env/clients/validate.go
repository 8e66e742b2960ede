package clients

import (
	"errors"
	"fmt"
	"math"

	"gearshift/internal/faults"
	"gearshift/router/balance"
)

func (c *Config) validate() error {
	if len(c.Hosts) == 0 || len(c.Models) == 0 || c.Chooser == nil {
		return errors.New("clients need hosts, models and a chooser")
	}
	var found faults.List
	for i, h := range c.Hosts {
		found.If(!positive(h.Compute), "host %d has %v cores; want a number above 0", i, h.Compute)
	}
	for i := range c.Models {
		c.modelFaults(i, &found)
	}
	c.memoryFaults(&found)
	for i, g := range c.Hogs {
		found.If(g.Host < 0 || g.Host >= len(c.Hosts), "hog %d is on host %d of %d, counted from 0", i, g.Host, len(c.Hosts))
		found.If(!positive(g.Bandwidth) || g.From < 0 || g.To <= g.From, "hog %d takes a bandwidth of %v from %v to %v; want more than 0, and an end after its beginning", i, g.Bandwidth, g.From, g.To)
	}
	found.If(c.Clients < 1, "%d clients; want at least 1", c.Clients)
	found.If(c.RateAt == nil && !positive(c.Rate), "a rate of %v; want a number above 0", c.Rate)
	found.If(c.Length <= c.Warmup || c.Warmup < 0, "a length of %v and a warm-up of %v; the length must be more", c.Length, c.Warmup)
	found.If(c.PollTakes < 0 || c.PollWork < 0 || c.Board < 0 || c.Timeout < 0 || c.Period < 0, "polls that take %v and %v of a core, a board each %v, a timeout of %v and a period of %v; none may be negative", c.PollTakes, c.PollWork, c.Board, c.Timeout, c.Period)
	found.If(c.ShareAt != nil && c.Period == 0, "shares change at the times of a period, of which there is none")
	c.fanoutFaults(&found)
	if _, hedges := c.Chooser.(balance.Hedger); hedges {
		found.If(c.Turns, "copies of requests are not simulated where requests wait for their turns; want another chooser, or no turns")
		found.If(c.Control != nil, "copies of requests are not simulated where a controller unloads replicas; want another chooser, or no controller")
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot simulate the clients: %w", err)
	}
	return nil
}

func (c *Config) modelFaults(i int, found *faults.List) {
	m := &c.Models[i]
	if c.first(i) == i {
		found.If(!positive(m.Share), "model %q has a share of %v; want a number above 0", m.Name, m.Share)
		found.If(len(m.Replicas) == 0, "model %q is on no host", m.Name)
	} else {
		found.If(m.Share != 0, "version %q of model %q has a share of %v; want 0: it gets what a controller gives it", m.Version, m.Name, m.Share)
	}
	found.If(m.Work == nil || m.Mean <= 0, "model %q has no work; want a distribution and its mean", m.Name)
	found.If(m.LoadWork < 0 || m.Bandwidth < 0 || m.Cold < 0 || m.Coldness < 0, "model %q has work or bandwidth below 0", m.Name)
	on := map[int]bool{}
	for _, h := range m.Replicas {
		found.If(h < 0 || h >= len(c.Hosts), "model %q is on host %d of %d, counted from 0", m.Name, h, len(c.Hosts))
		found.If(on[h], "model %q is on host %d twice", m.Name, h)
		on[h] = true
	}
}

// memoryFaults finds hosts whose first replicas take more memory than there is.
func (c *Config) memoryFaults(found *faults.List) {
	taken := make([]int64, len(c.Hosts))
	for i := range c.Models {
		for _, h := range c.Models[i].Replicas {
			if h >= 0 && h < len(taken) {
				taken[h] += c.Models[i].Memory
			}
		}
	}
	for i, h := range c.Hosts {
		found.If(h.Memory > 0 && taken[i] > h.Memory, "host %d has %d bytes of memory, of which its replicas take %d", i, h.Memory, taken[i])
	}
}

// first is the index of the first model of the name, of which the others are versions.
func (c *Config) first(model int) int {
	for i := range c.Models {
		if c.Models[i].Name == c.Models[model].Name {
			return i
		}
	}
	return model
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
