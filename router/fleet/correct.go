package fleet

import (
	"math"
	"slices"
)

// Closed is the cap of a replica that gets no request.
const Closed = -1

// SetCap bounds the requests that the router itself may have on the replica, in addition to
// the limit of the table. A replica on trial, or one that comes back, gets few at first.
// Zero removes the cap; [Closed] admits none.
func (l *Ledger) SetCap(replica, most int) {
	l.mu.Lock()
	if len(l.caps) > 0 || most != 0 {
		l.caps = set(l.caps, len(l.table.Replicas), replica, int32(most))
	}
	l.mu.Unlock()
	l.notifyRoom()
}

// Correct sets how many requests the replica has beyond the router's own, and how many
// tokens they hold there: those of other routers and other clients, as its gauges show.
// Views add them to the router's own counts; limits, caps and leases count only the
// router's own. Zeros remove the correction.
func (l *Ledger) Correct(replica, inFlight, held int) {
	defer l.notifyRoom()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.elsewhere) > 0 || inFlight != 0 {
		l.elsewhere = set(l.elsewhere, len(l.table.Replicas), replica, int32(inFlight))
	}
	if len(l.heldElsewhere) > 0 || held != 0 {
		l.heldElsewhere = set(l.heldElsewhere, len(l.table.Replicas), replica, int32(held))
	}
}

// SlowDown sets how many times as long as its profile says the replica takes. Views pass it
// on to forecasts. Factors below 1 count as 1, which is the normal speed.
func (l *Ledger) SlowDown(replica int, factor float64) {
	l.mu.Lock()
	if excess := float32(max(0, factor-1)); len(l.excess) > 0 || excess > 0 {
		l.excess = set(l.excess, len(l.table.Replicas), replica, excess)
	}
	l.mu.Unlock()
	l.notifyRoom()
}

// set puts a value into a list of n that is empty while all are zero. Views then copy
// nothing where such values are never used.
func set[T comparable](list []T, n, i int, value T) []T {
	var zero T
	if len(list) == 0 {
		list = slices.Grow(list, n)[:n]
		clear(list)
	}
	list[i] = value
	if value == zero && !slices.ContainsFunc(list, func(x T) bool { return x != zero }) {
		list = list[:0]
	}
	return list
}

// copyCorrections copies the caps and corrections into v, and adds the corrections to its
// counts, which are the router's own until then. The caller holds l.mu.
func (l *Ledger) copyCorrections(v *View) {
	v.Caps = append(v.Caps[:0], l.caps...)
	v.Elsewhere = append(v.Elsewhere[:0], l.elsewhere...)
	v.Excess = append(v.Excess[:0], l.excess...)
	v.Facts.copyFrom(&l.facts)
	for i, n := range l.elsewhere {
		v.InFlight[i] += n
	}
	for i, n := range l.heldElsewhere {
		v.Held[i] = int32(min(int64(v.Held[i])+int64(n), math.MaxInt32)) // as HoldEach bounds them
	}
}

// Own returns how many of the replica's requests in flight are the router's own.
func (v *View) Own(replica int) int {
	own := v.InFlight[replica]
	if len(v.Elsewhere) > 0 {
		own -= v.Elsewhere[replica]
	}
	return int(own)
}

// Slowdown returns how many times as long as its profile says the replica takes, 1 or more.
func (v *View) Slowdown(replica int) float64 {
	if len(v.Excess) == 0 {
		return 1
	}
	return 1 + float64(v.Excess[replica])
}
