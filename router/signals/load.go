package signals

import (
	"hash/fnv"
	"math"
	"time"
)

// Unsaid is the value of what an engine does not say.
const Unsaid = -1

// Load is what an engine says of its load at one moment. What it does not say is [Unsaid].
type Load struct {
	// Requests counts those of the model that run or wait, and Waiting those that wait: some
	// engines say only these.
	Requests, Waiting float64
	// Host counts the requests of all models on the host.
	Host float64
	// Examples counts the units of work in them: a request may carry many.
	Examples float64
	// Work is how many seconds the host's outstanding examples take on one core, and Cores how
	// many cores the host has.
	Work, Cores float64
	// KVUse is the share of the KV cache in use, and KVTokens the tokens in it.
	KVUse, KVTokens float64
	// CPU is the share of the host's processors that is busy, and Utilization the share of what
	// the application takes as full.
	CPU, Utilization float64
	// Rate and Errors count requests a second: all, and those that failed.
	Rate, Errors float64
	// Answered counts the requests since the engine began. It only grows, but for restarts.
	Answered float64
	// Model identifies the model of which this is said, and Instance the engine's process. Zero is
	// not said.
	Model, Instance uint32
}

// NewLoad returns a Load that says nothing.
func NewLoad() Load {
	var l Load
	for _, v := range l.values() {
		*v = Unsaid
	}
	return l
}

// values lists all numbers that an engine may leave out.
func (l *Load) values() [13]*float64 {
	return [...]*float64{
		&l.Requests, &l.Waiting, &l.Host, &l.Examples, &l.Work, &l.Cores, &l.KVUse, &l.KVTokens,
		&l.CPU, &l.Utilization, &l.Rate, &l.Errors, &l.Answered,
	}
}

// SaysLoad reports whether the Load has a counter that replicas can be compared by.
func (l *Load) SaysLoad() bool { return l.saysWork() || l.KVUse >= 0 }

// saysWork reports whether the Load has more than the share of a KV cache.
func (l *Load) saysWork() bool {
	return l.Requests >= 0 || l.Waiting >= 0 || l.Host >= 0 || l.Work >= 0 || l.Utilization >= 0 || l.CPU >= 0
}

// ModelID returns the number that stands for the name of a model in [Load.Model]. It is never zero.
func ModelID(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return max(1, h.Sum32())
}

// Reading returns the part that corrects the ledger.
func (l *Load) Reading() Reading {
	r := Reading{Running: Unsaid, Waiting: l.Waiting, KVUse: l.KVUse}
	if l.Requests >= 0 {
		r.Running = l.Requests - max(0, l.Waiting)
	}
	return r
}

// counters returns the counters that replicas are compared by. A host of which nothing is said has
// at least what its model has. PerRequest is the work of a request where the engine does not say it.
func (l *Load) counters(own Count, perRequest time.Duration) Counters {
	model := l.Requests
	if model < 0 {
		model = max(0, l.Waiting, float64(own.InFlight))
	}
	host := max(l.Host, model)
	c := Counters{Model: int(math.Round(model)), Host: int(math.Round(host)), Own: own.InFlight, Cores: max(0, l.Cores)}
	c.Work = time.Duration(host * float64(perRequest))
	c.Rate, c.Errors = max(0, l.Rate), max(0, l.Errors)
	c.Use, c.KVUse = max(0, l.Utilization), max(0, l.KVUse)
	for _, other := range [...]float64{l.CPU, l.KVUse} { // the first as gRPC has it
		if c.Use == 0 {
			c.Use = max(0, other)
		}
	}
	if l.Work >= 0 {
		c.Work = time.Duration(l.Work * float64(time.Second))
	}
	return c
}
