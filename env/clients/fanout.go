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

// enough is how often a further model is drawn at most. A request asks fewer where others have
// hardly any share.
const enough = 100

// fan has a client send a request to several models, the first of which has been drawn.
func (r *run) fan(client, model int, now time.Duration) {
	models := append(r.asked[:0], model)
	for tries := 0; len(models) < r.Fanout && tries < enough*r.Fanout; tries++ {
		m := r.draw()
		if !slices.ContainsFunc(models, func(x int) bool { return r.Models[x].Name == r.Models[m].Name }) {
			models = append(models, m)
		}
	}
	r.asked = models
	parent := int32(r.fans.put(fan{arrived: now, left: len(models)}) + 1)
	for _, m := range models {
		r.ask(client, m, parent, now)
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
	r.fans.drop(int(number) - 1)
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
