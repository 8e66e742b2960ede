package planner

import (
	"math/rand/v2"
	"slices"
	"sort"

	"gearshift/router/fleet"
	"gearshift/workloads"
)

// lengths is a distribution of output lengths as equally likely values, in
// ascending order, from which those above a bound can be drawn.
type lengths []int

// lengthDraws is how many values stand for a distribution: the mean of a
// geometric one is then right to 0.8 %.
const lengthDraws = 1 << 14

func newLengths(l workloads.Lengths, rng *rand.Rand) lengths {
	sample := l.Sampler()
	values := make(lengths, lengthDraws)
	for i := range values {
		values[i] = sample(rng)
	}
	slices.Sort(values)
	return values
}

// lengthsByTask is each task's; those that have none of their own share one.
func lengthsByTask(shape workloads.Shape, tasks []fleet.Task, rng *rand.Rand) []lengths {
	list, known := make([]lengths, len(tasks)), map[workloads.Lengths]lengths{}
	for i, t := range tasks {
		_, output := shape.Of(t.Name)
		if known[output] == nil {
			known[output] = newLengths(output, rng)
		}
		list[i] = known[output]
	}
	return list
}

// above draws a length given that it is above so many tokens: one more if no
// such length is known.
func (l lengths) above(tokens int, rng *rand.Rand) int {
	from := sort.SearchInts(l, tokens+1)
	if from == len(l) {
		return tokens + 1
	}
	return l[from+rng.IntN(len(l)-from)]
}
