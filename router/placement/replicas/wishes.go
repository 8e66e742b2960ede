package replicas

import "time"

// wishes are numbers of replicas that were wanted, in the order of their times. Those that a later
// and higher one outlasts are left out, so that the counts fall.
type wishes []wish

// wish is a number of replicas that was wanted at a time.
type wish struct {
	at time.Duration
	n  int
}

// add adds a wish, and returns the highest of the last time.
func (w *wishes) add(now time.Duration, n int, last time.Duration) int {
	list := *w
	for len(list) > 0 && list[len(list)-1].n <= n {
		list = list[:len(list)-1]
	}
	list = append(list, wish{at: now, n: n})
	gone := 0
	for list[gone].at < now-last {
		gone++
	}
	*w = append(list[:0], list[gone:]...)
	return (*w)[0].n
}
