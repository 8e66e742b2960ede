package clients

import (
	"slices"
	"sort"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/balance"
)

// fan is a request of a client that asks several models.
type fan struct {
	arrived time.Duration
	left    int // parts that have not ended
	failed  bool
}

// fans are the requests that ask several models, by number; the free numbers are used again.
type fans struct {
	list   []fan
	free   []int32
	models []int // of the request that is being sent
}

// enough is how often a further model is drawn at most. A request asks fewer where others have
// hardly any share.
const enough = 100

// fan has a client send a request to several models, the first of which has been drawn.
func (r *run) fan(client, model int, now time.Duration) {
	f := &r.fans
	if len(f.free) == 0 {
		f.free, f.list = append(f.free, int32(len(f.list)+1)), append(f.list, fan{})
	}
	number := f.free[len(f.free)-1]
	f.free = f.free[:len(f.free)-1]
	f.models = append(f.models[:0], model)
	for tries := 0; len(f.models) < r.Fanout && tries < enough*r.Fanout; tries++ {
		m := r.draw()
		if !slices.ContainsFunc(f.models, func(x int) bool { return r.Models[x].Name == r.Models[m].Name }) {
			f.models = append(f.models, m)
		}
	}
	f.list[number-1] = fan{arrived: now, left: len(f.models)}
	for _, m := range f.models {
		r.ask(client, m, number, now)
	}
}

// draw draws a model by the shares.
func (r *run) draw() int {
	return sort.SearchFloat64s(r.shares, r.random.Float64()*r.shares[len(r.shares)-1])
}

// part follows the end of a part of a request, which ends with the last of them.
func (r *run) part(number int32, now time.Duration, answered bool) {
	f := &r.fans.list[number-1]
	f.left--
	f.failed = f.failed || !answered
	if f.left > 0 {
		return
	}
	r.fans.free = append(r.fans.free, number)
	switch {
	case f.arrived < r.Warmup:
	case f.failed:
		r.result.Requests++
		r.result.Failed++
	default:
		r.enter(now - f.arrived)
	}
}

// carry draws the examples that a request carries to a model, and their work.
func (r *run) carry(x *request, m *Demand) {
	x.examples = 1
	if r.Examples != nil {
		x.examples = int32(max(1, r.Examples(r.random)))
	}
	for range x.examples {
		x.work += m.Work(r.random)
	}
}

// fanoutFaults finds requests that ask more models than there are.
func (c *Config) fanoutFaults(found *faults.List) {
	names := 0
	for i := range c.Models {
		if c.first(i) == i {
			names++
		}
	}
	found.If(c.Fanout < 0 || c.Fanout > names, "a request asks %d models of %d; want from 0 to all of them", c.Fanout, names)
	_, hedges := c.Chooser.(balance.Hedger)
	found.If(hedges && c.Fanout > 1, "copies of requests are not simulated where requests ask several models; want another chooser, or a fanout of 1")
}
