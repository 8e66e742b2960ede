package env

import (
	"time"

	"gearshift/env/engine"
)

// marginalReward keeps what the requests on each host would earn if no other came, and by
// how much each request has changed that: its own utility, less what it takes from those
// before it. The changes add up to the utilities, except on hosts that are lost. All
// methods do nothing on a nil marginalReward.
type marginalReward struct {
	worth    []float64 // by host
	imagined engine.Host
	first    []time.Duration // by sequence ID, of those imagined
	events   []engine.Event
}

// newMarginalReward returns nil unless the configuration asks for marginal rewards: they
// cost a simulation of the host for each request.
func newMarginalReward(c *Config) *marginalReward {
	if !c.Marginal {
		return nil
	}
	return &marginalReward{worth: make([]float64, len(c.Table.Hosts))}
}

// begin fills in the marginal reward of a request that has just been put on the host.
func (x *marginalReward) begin(s *Simulator, host int, o *Outcome) {
	if x == nil {
		return
	}
	worth := x.of(s, host)
	o.Marginal, x.worth[host] = worth-x.worth[host], worth
}

// of simulates the host until it is idle, and returns what its requests earn.
func (x *marginalReward) of(s *Simulator, host int) (worth float64) {
	x.imagined.CopyFrom(s.hosts[host])
	x.first = append(x.first, make([]time.Duration, len(s.jobs)-len(x.first))...)
	for _, ok := x.imagined.Next(); ok; _, ok = x.imagined.Next() {
		x.events = x.imagined.Step(x.events[:0])
		for _, e := range x.events {
			switch e.Kind {
			case engine.FirstToken:
				x.first[e.ID] = e.At // before the sequence ends, if it has not come already
			case engine.Finished:
				o := s.jobs[e.ID].outcome
				o.Finished = e.At
				if o.FirstToken == 0 {
					o.FirstToken = x.first[e.ID]
				}
				worth += s.utility(&o)
			}
		}
	}
	return worth
}

// end subtracts a request on the host that has ended.
func (x *marginalReward) end(host int, utility float64) {
	if x != nil {
		x.worth[host] -= utility
	}
}

// lose forgets the requests on a host that is lost.
func (x *marginalReward) lose(host int) {
	if x != nil {
		x.worth[host] = 0
	}
}

// revise simulates the host again after requests on it have broken.
func (x *marginalReward) revise(s *Simulator, host int) {
	if x != nil {
		x.worth[host] = x.of(s, host)
	}
}
