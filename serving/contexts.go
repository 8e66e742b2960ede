package serving

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/admission"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/work"
)

// contextLengths are how many tokens a prompt may have on each replica, as far as that is known:
// its context, of the configuration or else of the engine's own word, and its KV cache.
type contextLengths struct {
	table    *fleet.Table
	set      []int          // by replica, of the configuration; zero if it says nothing
	reported []atomic.Int64 // by replica, of the engine; zero if it does not say
	lowest   atomic.Int64   // of all limits: no shorter prompt is looked at
}

func newContexts(t *fleet.Table, backends []Backend) *contextLengths {
	c := &contextLengths{table: t, set: make([]int, len(backends)), reported: make([]atomic.Int64, len(backends))}
	for i := range backends {
		c.set[i] = backends[i].Context
	}
	c.lower()
	return c
}

// report notes the context that the engine of a replica reports; zero changes nothing.
func (c *contextLengths) report(replica, tokens int) {
	if tokens != int(c.reported[replica].Swap(int64(tokens))) {
		c.lower()
	}
}

func (c *contextLengths) lower() {
	lowest := int64(math.MaxInt64)
	for i := range c.set {
		if n := c.limit(i); n > 0 {
			lowest = min(lowest, int64(n))
		}
	}
	c.lowest.Store(lowest)
}

// of is the context of the replica; zero if it is not known.
func (c *contextLengths) of(replica int) int {
	if n := c.set[replica]; n > 0 {
		return n
	}
	return int(c.reported[replica].Load())
}

// ofVariant is the longest context of the variant's replicas; zero if none is known.
func (c *contextLengths) ofVariant(variant int) (longest int) {
	for _, i := range c.table.ReplicasOf(variant) {
		longest = max(longest, c.of(i))
	}
	return longest
}

// limit is the most tokens that a prompt may have on the replica; zero if it is not known.
func (c *contextLengths) limit(replica int) int {
	n, room := c.of(replica), c.table.Replicas[replica].KVTokens
	if n == 0 || room > 0 && room < n {
		return room
	}
	return n
}

// holding has a bit for each variant with a replica that could hold a prompt of so many
// tokens. It is zero if all could, or none: then the engines are to say.
func (c *contextLengths) holding(prompt int) (variants uint64) {
	if int64(prompt) <= c.lowest.Load() || len(c.table.Variants) > catalogue.MostVariants {
		return 0
	}
	all := true
	for v := range c.table.Variants {
		holds := slices.ContainsFunc(c.table.ReplicasOf(v), func(i int) bool { n := c.limit(i); return n == 0 || prompt <= n })
		if holds {
			variants |= 1 << v
		}
		all = all && (holds || len(c.table.ReplicasOf(v)) == 0)
	}
	if all {
		return 0
	}
	return variants
}

// The length of a prompt is an estimate, which may be so much above what it is.
const (
	overestimated      = 3
	overestimatedOutOf = 2
)

// fit has the call go to sizes that can hold its prompt, if the policy may choose.
func (c *contextLengths) fit(k *call) {
	if k.variant == work.Auto && k.fleet.Only == 0 {
		k.fleet.Holding = c.holding(k.fleet.PromptTokens)
	}
}

// unfit begins work for which the sizes that can hold it by the estimate have no room, or
// are down, on one that may hold it all the same. It reports false if there is none.
func (c *contextLengths) unfit(w *work.Work, k call, err error) bool {
	if w.Request.Holding == 0 {
		return false
	}
	before := w.Request.Holding
	switch {
	case errors.Is(err, router.ErrNoReplica):
		w.Request.Holding = 0
	case admission.ReasonOf(err) == admission.ReasonSaturated, admission.ReasonOf(err) == admission.ReasonDeadline, admission.ReasonOf(err) == admission.ReasonFull:
		w.Request.Holding = c.holding(w.Request.PromptTokens * overestimatedOutOf / overestimated)
	}
	if w.Request.Holding == before {
		return false
	}
	if w.Begin(k.variant, k.account.observer(k.fleet)) == nil {
		return true
	}
	w.Request.Holding = before
	return false
}
