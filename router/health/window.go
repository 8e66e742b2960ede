package health

import "time"

// slots is the number of slots of a window, which sets the precision of its length.
const slots = 10

// window counts the requests that ended within a sliding time window.
type window struct {
	good, bad [slots]int
	at        int64 // the slot of the newest count, from the epoch on
}

// add counts one request that ended at the time now.
func (w *window) add(now, length time.Duration, failed bool) {
	slot := int64(now / max(1, length/slots))
	for ; w.at < slot; w.at++ {
		if slot-w.at > slots {
			w.at = slot - slots
		}
		next := (w.at + 1) % slots
		w.good[next], w.bad[next] = 0, 0
	}
	if i := w.at % slots; failed {
		w.bad[i]++
	} else {
		w.good[i]++
	}
}

// sum returns how many requests there were, and how many of them failed.
func (w *window) sum() (all, failed int) {
	for i := range slots {
		failed += w.bad[i]
		all += w.good[i] + w.bad[i]
	}
	return all, failed
}
