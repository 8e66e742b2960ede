package env

import (
	"time"

	"gearshift/env/engine"
)

// outlook is what the requests on each host would earn if no other came, and how much
// each of them has changed that by coming: its own utility, less what it takes from those
// that were there before. All utilities together are all such changes, in another order,
// but for those of hosts lost.
type outlook struct {
	worth    []float64 // by host
	imagined engine.Host
	first    []time.Duration // by sequence ID, of those imagined
	events   []engine.Event
}

// newOutlook is nil where nobody asks for it.
func newOutlook(c *Config) *outlook {
	if !c.Marginal {
		return nil
	}
	return &outlook{worth: make([]float64, len(c.Table.Hosts))}
}

// begin notes that a request has been put on the host.
func (x *outlook) begin(s *Simulator, host int, o *Outcome) {
	if x == nil {
		return
	}
	worth := x.of(s, host)
	o.Marginal, x.worth[host] = worth-x.worth[host], worth
}

// of plays the host to its end.
func (x *outlook) of(s *Simulator, host int) (worth float64) {
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

// end notes that a request on the host has ended.
func (x *outlook) end(host int, utility float64) {
	if x != nil {
		x.worth[host] -= utility
	}
}

// lose notes that the host is lost with all that was there.
func (x *outlook) lose(host int) {
	if x != nil {
		x.worth[host] = 0
	}
}

// revise notes that requests on the host have ended in another way.
func (x *outlook) revise(s *Simulator, host int) {
	if x != nil {
		x.worth[host] = x.of(s, host)
	}
}
