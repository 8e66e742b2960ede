package workloads

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gearshift/router/fleet"
)

// Mix is the weight of each task by name, in any unit. A task that is left out
// has none; an empty mix is all tasks alike.
type Mix map[string]float64

// Validate names every weight that cannot be and every name that is not one of
// the tasks, as joined [KeyError].
func (m Mix) Validate(tasks []fleet.Task) error {
	var f keyFaults
	var sum float64
	for _, name := range m.names() {
		weight := m[name]
		f.addIf(!slices.Contains(taskNames(tasks), name), name, "is not a task of this fleet; one of %s would be right", strings.Join(taskNames(tasks), ", "))
		f.addIf(!(weight >= 0 && !math.IsInf(weight, 1)), name, "%v is not a weight; a number from 0 up would be right", weight)
		sum += weight
	}
	if len(m) > 0 && len(f.List) == 0 && !(sum > 0 && !math.IsInf(sum, 1)) {
		f.add(m.names()[0], "the weights sum to %v; at least one must be above 0", sum)
	}
	return f.Err()
}

// names are sorted, so that faults are named in the same order every time.
func (m Mix) names() []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func taskNames(tasks []fleet.Task) []string {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.Name
	}
	return names
}

// Shares returns each task's share of the requests, in the order of the tasks.
func (m Mix) Shares(tasks []fleet.Task) []float64 {
	shares := make([]float64, len(tasks))
	var sum float64
	for i, t := range tasks {
		shares[i] = m[t.Name]
		if len(m) == 0 {
			shares[i] = 1
		}
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// chooser draws tasks by the running sum of their shares.
type chooser []float64

func (m Mix) chooser(tasks []fleet.Task) chooser {
	c := chooser(m.Shares(tasks))
	last := 0 // task with a share, which takes what rounding leaves of the whole
	for i := range c {
		if c[i] > 0 {
			last = i
		}
		if i > 0 {
			c[i] += c[i-1]
		}
	}
	for i := last; i < len(c); i++ {
		c[i] = 1
	}
	return c
}

func (c chooser) choose(rng *rand.Rand) int {
	u, i := rng.Float64(), 0
	for u >= c[i] {
		i++
	}
	return i
}
