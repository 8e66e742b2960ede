package mosel

import (
	"cmp"
	"slices"
	"time"

	"gearshift/router/modality"
	"gearshift/router/solve"
	"gearshift/workloads"
)

// boundOf returns an amount that the quality of the requests answered in time cannot exceed,
// whatever a worker that knows all jobs beforehand does. The table has what batches really
// take.
//
// Time is divided into parts. The jobs that come in a part are planned exactly, for a worker
// that has nothing else to do from the beginning of the part on and to which they all come
// at once; each may be dropped. That a job comes later, and that the jobs of one part delay
// those of the next, is left out, so that a plan can only be better. The bound is that of the
// division, of those into parts of 1, 4 and 16 times of the longest time to a deadline, by which it is
// lowest.
func boundOf(t *modality.Table, arrivals []workloads.JobArrival) float64 {
	if len(arrivals) == 0 {
		return 0
	}
	step := time.Nanosecond
	for i := range arrivals {
		step = max(step, arrivals[i].Deadline-arrivals[i].At)
	}
	b := bound{table: t, arrivals: arrivals, step: step}
	steps := int((arrivals[len(arrivals)-1].At-arrivals[0].At)/step) + 1
	least := make([]float64, steps+1) // of the jobs that come before each step
	for i := 1; i <= steps; i++ {
		least[i] = least[i-1] + b.part(i-1, i)
		for _, length := range [...]int{4, 16} {
			if i%length == 0 || i == steps {
				from := (i - 1) / length * length
				least[i] = min(least[i], least[from]+b.part(from, i))
			}
		}
	}
	return least[steps]
}

// bound works out parts.
type bound struct {
	table    *modality.Table
	arrivals []workloads.JobArrival
	step     time.Duration
	chain    solve.Chain
	items    []solve.Item
	picks    []int
}

// part bounds the jobs that come from one step to another.
func (b *bound) part(from, to int) float64 {
	first := b.arrivals[0].At
	begin, end := first+time.Duration(from)*b.step, first+time.Duration(to)*b.step
	at := func(t time.Duration) int {
		i, _ := slices.BinarySearchFunc(b.arrivals, t, func(a workloads.JobArrival, t time.Duration) int { return cmp.Compare(a.At, t) })
		return i
	}
	here := slices.Clone(b.arrivals[at(begin):at(end)])
	slices.SortStableFunc(here, func(x, y workloads.JobArrival) int { return cmp.Compare(x.Deadline, y.Deadline) })
	b.items = b.items[:0]
	for i := range here {
		front := b.table.Front(here[i].Size)
		k, ok := front.At(here[i].Floor * float64(here[i].Size))
		if !ok {
			continue
		}
		choices := append(solve.Front{{}}, front[k:]...) // the first drops it
		b.items = append(b.items, solve.Item{Front: choices, Budget: float64(here[i].Deadline-begin) / float64(time.Millisecond)})
	}
	b.picks = slices.Grow(b.picks[:0], len(b.items))[:len(b.items)]
	value, _ := b.chain.Solve(b.items, b.picks)
	return value + b.chain.Gap()
}
