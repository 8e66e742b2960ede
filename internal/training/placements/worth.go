package placements

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"gearshift/env"
	"gearshift/workloads"
)

// ledger adds up what the requests of an episode earn by their times of arrival.
type ledger struct {
	list []earned
	sums []float64 // of the utilities before each
}

type earned struct {
	at      time.Duration
	utility float64
}

func (l *ledger) reset() { l.list, l.sums = l.list[:0], l.sums[:0] }

// add takes in a request's end.
func (l *ledger) add(o *env.Outcome) bool {
	l.list = append(l.list, earned{o.Request.Arrival, o.Utility})
	return true
}

// close orders the requests by their arrival.
func (l *ledger) close() {
	slices.SortStableFunc(l.list, func(a, b earned) int { return cmp.Compare(a.at, b.at) })
	sum := 0.0
	l.sums = append(l.sums[:0], 0)
	for i := range l.list {
		sum += l.list[i].utility
		l.sums = append(l.sums, sum)
	}
}

// between returns how many requests arrived in an interval, and what they earned.
func (l *ledger) between(from, to time.Duration) (requests int, utility float64) {
	find := func(at time.Duration) int {
		return sort.Search(len(l.list), func(i int) bool { return l.list[i].at >= at })
	}
	a, b := find(from), find(to)
	return b - a, l.sums[b] - l.sums[a]
}

// evenness is added to a rate by which utility is divided: of high rates a second counts by what a request earns, as in
// the mean over rates, and of low ones it counts less, as in the mean over requests.
const evenness = 8

// weight returns how much a request counts at a time.
func weight(phases []workloads.Phase, at time.Duration) float64 {
	for _, p := range phases {
		if at -= p.Duration; at < 0 {
			return 1 / (p.Rate + evenness)
		}
	}
	return 1 / (phases[len(phases)-1].Rate + evenness)
}

// fresh begins an episode and returns what follows its requests.
func (l *ledger) fresh() func(*env.Outcome) bool {
	l.reset()
	return l.add
}

// weighed returns what all requests earn, by their weights.
func (l *ledger) weighed(phases []workloads.Phase) (sum float64) {
	for i := range l.list {
		sum += l.list[i].utility * weight(phases, l.list[i].at)
	}
	return sum
}
