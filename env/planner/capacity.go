package planner

import (
	"math"
	"slices"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// load is the means of the requests that [Fluid] rests on, in tokens.
type load struct {
	prompt, output float64
	// context is the mean of a sequence over its decode steps: a request of L
	// tokens has prompt + 1 … prompt + L − 1 in them.
	context float64
	rate    float64 // requests per second
}

func newLoad(shape workloads.Shape) load {
	l := load{prompt: shape.Prompt.Expected(), output: shape.Output.Expected()}
	l.context = l.prompt
	if l.output > 1 {
		l.context += (meanSquare(shape.Output) - l.output) / 2 / (l.output - 1)
	}
	return l
}

// maxPatterned is up to how many replicas a host's contention is resolved by
// patterns; above, neighbours do not slow each other, which bounds all the same.
const maxPatterned = 6

// replica is what the throughput of a replica depends on.
type replica struct {
	variant, kv, limit int
	others             float64 // other replicas on the host
	profile            *profile.Profile
	engine             engine.Config
}

// classes groups the hosts and finds their throughputs.
func classes(c *env.Config, l load) []class {
	var known [][]replica
	var list []class
	for h := range c.Table.Hosts {
		var host []replica
		others := float64(len(c.Table.ReplicasOn(h)) - 1)
		for _, r := range c.Table.ReplicasOn(h) {
			host = append(host, replica{c.Table.Replicas[r].Variant, c.KVTokens[r], c.Table.Replicas[r].Limit, others, c.Profiles[r], c.Engine})
		}
		same := slices.IndexFunc(known, func(k []replica) bool { return slices.Equal(k, host) })
		if same < 0 {
			same = len(known)
			known, list = append(known, host), append(list, newClass(host, l))
		}
		list[same].hosts++
	}
	return list
}

func newClass(host []replica, l load) class {
	var c class
	for i := range host {
		c.replicas = append(c.replicas, carrier{host[i].variant})
	}
	all := 1<<len(host) - 1
	if len(host) > maxPatterned {
		c.patterns = append(c.patterns, throughputs(host, func(int) (bool, float64) { return true, 0 }, l))
		return c
	}
	for pattern := 1; pattern <= all; pattern++ {
		busy := func(i int) bool { return pattern>>i&1 == 1 }
		least := make([]float64, len(host))
		for i := range host {
			if busy(i) {
				least[i] = host[i].leastDuty(l)
			}
		}
		c.patterns = append(c.patterns, throughputs(host, func(i int) (bool, float64) {
			var neighbours float64
			for j := range least {
				if j != i {
					neighbours += least[j]
				}
			}
			return busy(i), neighbours
		}, l))
	}
	return c
}

// throughputs returns that of each replica that is busy, next to neighbours of that duty.
func throughputs(host []replica, busy func(i int) (bool, float64), l load) []throughput {
	list := make([]throughput, len(host))
	for i := range host {
		if ok, neighbours := busy(i); ok {
			list[i] = host[i].throughput(neighbours, l)
		}
	}
	return list
}

// batch returns the most sequences that can run at once.
func (r *replica) batch(l load) int {
	n := math.Ceil(float64(r.kv) / l.context)
	most := max(1, min(int(min(n, math.MaxInt32)), r.engine.MaxSequences))
	if r.limit > 0 {
		most = min(most, r.limit)
	}
	return most
}

// throughput returns the requests per second that leave the replica at each batch size.
func (r *replica) throughput(neighbours float64, l load) throughput {
	prefill := r.prefill(l)
	list := make(throughput, r.batch(l))
	for i := range list {
		n := i + 1
		step, _ := r.profile.Step(n, n, int(float64(n)*l.context), neighbours)
		takes := (l.output-1)*step + float64(n)*prefill // ms
		list[i] = 1000 * float64(n) / max(takes, 1e-6)
	}
	return list
}

// prefill returns the least mean time in milliseconds that a prompt costs the engine.
func (r *replica) prefill(l load) float64 {
	if r.engine.Scheduler == engine.ChunkedPrefill {
		// Beside a decode step that runs anyway: the least slope of its cost.
		return l.prompt*min(r.profile.Token, r.profile.Weights*r.profile.Growth) + r.profile.Sequence
	}
	// Prompts share a step if they arrive within the one before it. Even if every
	// request were sent to this replica, that is so many to a step on average:
	n := r.batch(l)
	longest, _ := r.profile.Step(n, n, int(float64(n)*l.context), r.others)
	together := min(1+l.rate*longest/1000, float64(r.prompts(l)))

	takes := make([]float64, r.prompts(l)+1) // by prompts
	for k := range takes {
		takes[k], _ = r.profile.Step(int(float64(k)*l.prompt), k, 0, 0)
		takes[k] += float64(k) * r.profile.Prompt
	}
	least := math.Inf(1)
	for i := 1; float64(i) <= together; i++ {
		least = min(least, takes[i]/float64(i))
		for j := int(together) + 1; j < len(takes); j++ { // a mixture of steps with i and with j
			mixed := takes[i] + (together-float64(i))*(takes[j]-takes[i])/float64(j-i)
			least = min(least, mixed/together)
		}
	}
	return least
}

// prompts returns how many fit a prefill step.
func (r *replica) prompts(l load) int {
	n := min(int(float64(r.engine.MaxBatchTokens)/l.prompt), r.engine.MaxSequences)
	if r.engine.MaxPrompts > 0 {
		n = min(n, r.engine.MaxPrompts)
	}
	return max(1, n)
}

// leastDuty returns the least share of a step that loads the GPU, over the steps that
// the replica may run next to anything from no neighbour to all of them all the time.
// More of them lower the share, or where engines take turns (crowding) raise it: the
// least is at either end.
func (r *replica) leastDuty(l load) float64 {
	least := 1.0
	for _, neighbours := range []float64{0, r.others} {
		for n := 1; n <= r.batch(l); n++ {
			_, duty := r.profile.Step(n, n, int(float64(n)*l.context), neighbours)
			least = min(least, duty)
		}
		for k := 1; k <= r.prompts(l); k++ {
			ms, gpu := r.profile.Time(int(float64(k)*l.prompt), k, 0, neighbours)
			if ms += float64(k) * r.profile.Prompt; ms > 0 {
				gpu /= ms
			}
			least = min(least, gpu)
		}
	}
	return least
}
