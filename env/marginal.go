package env

import (
	"slices"
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

// differenceReward keeps, for each request on an engine, its host as it would be without that
// request. The same later requests come there, until the request ends. By how much less the
// requests on the host earn without it, those that come later included, is its reward. That
// others would be routed elsewhere without it is left out. All methods do nothing on a nil
// differenceReward.
type differenceReward struct {
	hosts  [][]*without
	free   []*without // their memory
	earned []float64  // by host, by the requests that have ended
	rest   marginalReward
	events []engine.Event
}

// without is a host as it would be without a request.
type without struct {
	host   engine.Host
	id     uint64        // of the request's sequence
	began  time.Duration // when the request came
	before float64       // what the host's requests had earned by then
	earned float64       // since then, without it
	first  []firstToken  // that have come since then, without it
}

type firstToken struct {
	id uint64
	at time.Duration
}

// newDifferenceReward returns nil unless the configuration asks for differences: each request in
// flight costs a simulation of its host.
func newDifferenceReward(c *Config) *differenceReward {
	if !c.Difference {
		return nil
	}
	return &differenceReward{hosts: make([][]*without, len(c.Table.Hosts)), earned: make([]float64, len(c.Table.Hosts))}
}

// begin puts a sequence, which the simulated host gets next, on the hosts without earlier ones.
func (x *differenceReward) begin(s *Simulator, at location, q engine.Sequence) {
	if x == nil {
		return
	}
	for _, w := range x.hosts[at.host] {
		x.run(s, w, s.now)
		w.host.Submit(at.engine, q, s.now)
	}
	w := new(without)
	if n := len(x.free); n > 0 {
		w, x.free = x.free[n-1], x.free[:n-1]
	}
	w.host.CopyFrom(s.hosts[at.host])
	w.id, w.began, w.before, w.earned, w.first = q.ID, s.now, x.earned[at.host], 0, w.first[:0]
	x.hosts[at.host] = append(x.hosts[at.host], w)
}

// end fills in the reward of the request of a sequence that has ended on the host. Where the host
// was lost or revised in between, that is its own utility.
func (x *differenceReward) end(s *Simulator, host int, id uint64, o *Outcome) {
	if x == nil {
		return
	}
	o.Marginal = o.Utility
	x.earned[host] += o.Utility
	i := slices.IndexFunc(x.hosts[host], func(w *without) bool { return w.id == id })
	if i < 0 {
		return
	}
	w := x.hosts[host][i]
	x.run(s, w, o.Finished)
	x.run(s, w, idle) // none comes any more, on either
	o.Marginal = x.earned[host] + x.rest.of(s, host) - w.before - w.earned
	x.hosts[host] = slices.Delete(x.hosts[host], i, i+1)
	x.free = append(x.free, w)
}

// lose forgets what a host would be: it is lost, or its requests have broken.
func (x *differenceReward) lose(host int) {
	if x != nil {
		x.free, x.hosts[host] = append(x.free, x.hosts[host]...), x.hosts[host][:0]
	}
}

// run processes the events of a host without a request up to and including time until.
func (x *differenceReward) run(s *Simulator, w *without, until time.Duration) {
	for at, ok := w.host.Next(); ok && at <= until; at, ok = w.host.Next() {
		x.events = w.host.Step(x.events[:0])
		for _, e := range x.events {
			switch e.Kind {
			case engine.FirstToken:
				w.first = append(w.first, firstToken{e.ID, e.At})
			case engine.Finished:
				w.earned += w.utility(s, e)
			}
		}
	}
}

// utility returns what the request of a sequence earns that has ended without the other.
func (w *without) utility(s *Simulator, e engine.Event) float64 {
	o := s.jobs[e.ID].outcome
	o.Finished = e.At
	if i := slices.IndexFunc(w.first, func(f firstToken) bool { return f.id == e.ID }); i >= 0 {
		o.FirstToken, w.first[i] = w.first[i].at, w.first[len(w.first)-1]
		w.first = w.first[:len(w.first)-1]
	} else if o.FirstToken == 0 || o.FirstToken > w.began { // under a law without tokens
		o.FirstToken = e.At
	}
	return s.utility(&o)
}
