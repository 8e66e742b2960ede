package balance

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/router/signals"
)

// Prequal chooses by probes that it sends beside requests and keeps in a pool (Wydrowski et
// al., "Load is not what you should balance", NSDI 2024). A replica is hot if it has more
// requests than the replicas of a share Quantile had of late. Of the cold ones in the pool the
// one with the shortest estimated time is chosen, and if all are hot the one with the fewest
// requests.
type Prequal struct {
	// Probes is how many are sent for each request, on average.
	Probes float64
	// Pool is how many answers are kept at most, 16 in the paper; below Least of them any
	// replica is chosen.
	Pool, Least int
	// Age is after how long an answer is thrown away, and Reuse how often it is used.
	Age   time.Duration
	Reuse int
	// Remove is how many answers are thrown away for each request, on average, in turn the
	// worst and the oldest.
	Remove float64
	// Quantile is the share of replicas that are cold.
	Quantile float64
	// Requests counts the requests of a replica.
	Requests signals.Counter
	// Drain estimates the time by the work that the host has to do, and not by how long requests
	// took lately that found as many there.
	Drain bool
	// Shared has one pool for all models of a client: what a host says serves each model that it has.
	// It takes counters of the host, so that Requests must not count a model's, and Drain.
	Shared bool
}

// poolProbe is an answer to a probe.
type poolProbe struct {
	from  int     // the replica, or in a shared pool its host
	load  float64 // requests
	takes float64 // nanoseconds
	at    time.Duration
	used  int
}

// pool is what Prequal keeps.
type pool struct {
	probes []poolProbe
	loads  [64]float64 // the latest
	heard  int
	oldest bool    // is thrown away next, not the worst
	owed   float64 // answers to throw away
	sorted [64]float64
	hot    float64 // more requests are hot
}

// pooled is the pool of a model.
type pooled struct {
	*pool
	replicas []int32 // by host, one more than the model's replica there; nil in a pool of its own
}

// Memory implements [Rememberer].
func (p Prequal) Memory(k *Knowledge) any {
	if !p.Shared {
		return &pooled{pool: p.empty()}
	}
	if k.Client.memory == nil {
		k.Client.memory = p.empty()
	}
	x := &pooled{k.Client.memory.(*pool), make([]int32, k.Client.Hosts)}
	for i, h := range k.Hosts {
		x.replicas[h] = int32(i + 1)
	}
	return x
}

func (p Prequal) empty() *pool { return &pool{probes: make([]poolProbe, 0, p.Pool+1)} }

// name returns what an answer of the replica is kept by.
func (x *pooled) name(k *Knowledge, replica int) int {
	if x.replicas == nil {
		return replica
	}
	return k.Hosts[replica]
}

// replica returns the model's replica that the i-th answer is of, if it may be chosen; else −1.
func (x *pooled) replica(k *Knowledge, i int) int {
	replica := x.probes[i].from
	if x.replicas != nil {
		replica = int(x.replicas[replica]) - 1
	}
	if replica < 0 || !k.Allowed(replica) {
		return -1
	}
	return replica
}

// Polled implements [Chooser]: no replica is asked before a choice.
func (p Prequal) Polled(_ *Knowledge, _ time.Duration, _ *rand.Rand, polled []int) []int {
	return polled
}

// Probed implements [Prober].
func (p Prequal) Probed(k *Knowledge, _ time.Duration, random *rand.Rand, buf []int) []int {
	n := int(p.Probes)
	if random.Float64() < p.Probes-float64(n) {
		n++
	}
	return k.draw(min(n, mostDrawn), random, buf)
}

// Heard implements [Listener]. What comes with answers does not count: hosts that answer much
// would be in the pool more often.
func (p Prequal) Heard(k *Knowledge, replica int, c *signals.Counters, by Source, now time.Duration) {
	if by != Probed && by != Polled {
		return
	}
	x := k.memory.(*pooled)
	answer := poolProbe{from: x.name(k, replica), load: p.Requests.Load(c), takes: p.takes(c), at: now}
	x.loads[x.heard%len(x.loads)] = answer.load
	x.heard++
	if x.heard <= 8 || x.heard%8 == 0 {
		x.rank(p.Quantile)
	}
	if by == Polled {
		return
	}
	x.probes = append(x.probes, answer)
	if len(x.probes) > p.Pool {
		x.remove(x.first())
	}
}

// takes is the estimated time of a request on a host that says c.
func (p Prequal) takes(c *signals.Counters) float64 {
	if p.Drain {
		return signals.ByWork.Load(c)
	}
	return float64(c.Took)
}

// rank sets above how many requests a replica is hot.
func (x *pool) rank(quantile float64) {
	n := min(x.heard, len(x.loads))
	sorted := x.sorted[:n]
	copy(sorted, x.loads[:n])
	slices.Sort(sorted)
	x.hot = sorted[max(0, min(n, int(math.Ceil(quantile*float64(n))))-1)]
}

// Choose implements [Chooser].
func (p Prequal) Choose(k *Knowledge, _ []int, now time.Duration, random *rand.Rand) int {
	x := k.memory.(*pooled)
	x.expire(p.Age, now)
	for x.owed += p.Remove; x.owed >= 1; x.owed-- {
		x.throw()
	}
	best, ties, have := -1, 0, 0
	for i := range x.probes {
		if x.replica(k, i) < 0 {
			continue
		}
		switch have++; {
		case best < 0 || x.before(i, best) < 0:
			best, ties = i, 1
		case x.before(i, best) == 0:
			if ties++; random.IntN(ties) == 0 {
				best = i
			}
		}
	}
	if have < max(1, p.Least) {
		return k.Candidate(random.IntN(k.Size()))
	}
	chosen := x.replica(k, best)
	x.add(x.probes[best].from, 1) // it is about to have one more
	if x.probes[best].used++; x.probes[best].used >= p.Reuse {
		x.remove(best)
	}
	return chosen
}

// Counted implements [Follower].
func (p Prequal) Counted(k *Knowledge, replica, more int) {
	x := k.memory.(*pooled)
	x.add(x.name(k, replica), more)
}

// add counts so many more requests in the answers that are kept by the name.
func (x *pool) add(name, more int) {
	for i := range x.probes {
		if a := &x.probes[i]; a.from == name {
			a.load = max(0, a.load+float64(more))
		}
	}
}

// hotCost is more than any time.
const hotCost = 1e18

// cost is lower for what is chosen first: the cold by their time, then the hot by their
// requests.
func (x *pool) cost(load, takes float64) float64 {
	if load > x.hot {
		return hotCost * (1 + load)
	}
	return takes
}

// before is negative if the i-th probe is chosen before the j-th; of equals the newer.
func (x *pool) before(i, j int) int {
	a, b := &x.probes[i], &x.probes[j]
	return cmp.Or(cmp.Compare(x.cost(a.load, a.takes), x.cost(b.load, b.takes)), cmp.Compare(b.at, a.at))
}

// expire removes the answers that are too old.
func (x *pool) expire(age, now time.Duration) {
	kept := x.probes[:0]
	for _, a := range x.probes {
		if now-a.at < age {
			kept = append(kept, a)
		}
	}
	x.probes = kept
}

// throw removes the oldest answer and the worst in turn: the hot one with the most requests, or
// the slowest if all are cold.
func (x *pool) throw() {
	if len(x.probes) == 0 {
		return
	}
	at := x.first()
	if !x.oldest {
		at = 0
		for i := range x.probes {
			if x.before(at, i) < 0 {
				at = i
			}
		}
	}
	x.oldest = !x.oldest
	x.remove(at)
}

// first is the oldest answer.
func (x *pool) first() (at int) {
	for i := range x.probes {
		if x.probes[i].at < x.probes[at].at {
			at = i
		}
	}
	return at
}

func (x *pool) remove(i int) { x.probes = slices.Delete(x.probes, i, i+1) }
