package signals

import (
	"cmp"
	"time"
)

// Counters is what the server of a model's replica says of its load at one moment.
type Counters struct {
	// Model and Host count the requests that are being answered or wait: those of the model on
	// this replica, and those of all models on its host.
	Model, Host int
	// Own counts those that were the router's own when this was said.
	Own int
	// Work is how long the host's outstanding examples are estimated to take on one core.
	Work time.Duration
	// Cores is how many the host has; zero is unknown, and counts as one.
	Cores float64
	// Took is how long requests of the model took lately that found as many there as there are
	// now; zero is unknown.
	Took time.Duration
	// Use is the share of the host's cores that was busy of late, Rate how many requests it
	// answered per second and Errors how many it failed. Zero is unknown.
	Use, Rate, Errors float64
	// KVUse is the share of the KV cache in use. It decides among replicas that are equal otherwise.
	KVUse float64
}

// Count makes the counters those of now, when the router has own requests on the replica: what others
// had there when it was said, and those. A router sends requests faster than replicas report, so
// that without them all would go to the one that was the emptiest at the last report.
func (c *Counters) Count(own int) {
	if own == c.Own {
		return
	}
	more := max(0, c.Model-c.Own) + own - c.Model
	if c.Host > 0 {
		c.Work += time.Duration(float64(c.Work) / float64(c.Host) * float64(more))
	} else {
		c.Work += time.Duration(more) * nominal
	}
	c.Model, c.Host, c.Own = c.Model+more, c.Host+more, own
}

// Counter is which of the counters replicas are compared by.
type Counter uint8

// The counters.
const (
	// ByModel compares the model's own requests. It evens what the replicas of a model have,
	// whatever else their hosts do. Of replicas that have none, the one on the host with
	// less is preferred (META-10): else models with little load would choose at random.
	ByModel Counter = iota
	// ByHost compares all requests of the host, for each of its cores.
	ByHost
	// ByWork compares how long the host's cores have to do: outstanding work for each of its
	// cores (META-12).
	ByWork
)

// Compare is negative if a replica that says a is less loaded than one that says b, and
// positive if it is more.
func (c Counter) Compare(a, b *Counters) int {
	order := cmp.Compare(float64(a.Host)/a.cores(), float64(b.Host)/b.cores())
	switch {
	case c == ByModel && (a.Model != 0 || b.Model != 0):
		order = cmp.Compare(a.Model, b.Model)
	case c == ByWork:
		order = cmp.Compare(float64(a.Work)/a.cores(), float64(b.Work)/b.cores())
	}
	return cmp.Or(order, cmp.Compare(a.KVUse, b.KVUse))
}

// Load is what replicas are compared by, as a number. By the model's own requests, those of the
// host count for little, so that they decide among equals.
func (c Counter) Load(x *Counters) float64 {
	load := float64(x.Host) / x.cores()
	switch c {
	case ByModel:
		load = float64(x.Model) + load/hostsPart
	case ByWork:
		load = float64(x.Work) / x.cores()
	}
	return load + x.KVUse/kvPart
}

const (
	// hostsPart is more requests than a core ever has.
	hostsPart = 1 << 20
	// kvPart makes a whole KV cache count for less than any difference of the others.
	kvPart = 1 << 30
)

func (c *Counters) cores() float64 {
	if c.Cores > 0 {
		return c.Cores
	}
	return 1
}

// String returns the counter's name.
func (c Counter) String() string {
	return [...]string{"model", "host", "work"}[c]
}
