package env

import (
	"cmp"
	"time"

	"gearshift/router/control"
)

// agenda holds what is due at times that no engine sets: losses of hosts and their returns,
// readings of gauges, fading beliefs. It is a binary heap. Engines have another heap, since
// each host runs by itself from one item of the agenda to the next.
type agenda struct{ items []item }

// item is one entry of the agenda.
type item struct {
	at   time.Duration
	what what
	// index names what it is about: the index of a loss among the losses; of a return or a
	// probe, the host; of an action, the replica; of a request, its sequence ID; of gauges,
	// the router.
	index int
}

// what is the sort of an item. At equal times the lower comes first, so that runs repeat
// exactly, and all come after the engines' events of that time.
type what uint8

const (
	hostLost what = iota
	hostBack
	actionEnds
	requestBreaks
	hostProbed
	controllersWake // which has no item: [Simulator.wakeDue]
	gaugesRead
	beliefsFade
)

// before reports whether x is due before y.
func (x item) before(y item) bool {
	return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.what, y.what), cmp.Compare(x.index, y.index)) < 0
}

// first returns the item that is due next, and false if there is none.
func (a *agenda) first() (item, bool) {
	if len(a.items) == 0 {
		return item{}, false
	}
	return a.items[0], true
}

func (a *agenda) add(x item) {
	a.items = append(a.items, x)
	for i := len(a.items) - 1; i > 0 && a.items[i].before(a.items[(i-1)/2]); i = (i - 1) / 2 {
		a.items[i], a.items[(i-1)/2] = a.items[(i-1)/2], a.items[i]
	}
}

// take removes the first item.
func (a *agenda) take() item {
	x := a.items[0]
	last := len(a.items) - 1
	a.items[0] = a.items[last]
	a.items = a.items[:last]
	a.sink(0)
	return x
}

// sink moves the item at i down to where it belongs.
func (a *agenda) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(a.items) {
			return
		}
		if right := child + 1; right < len(a.items) && a.items[right].before(a.items[child]) {
			child = right
		}
		if !a.items[child].before(a.items[i]) {
			return
		}
		a.items[i], a.items[child] = a.items[child], a.items[i]
		i = child
	}
}

// change calls f for each item, which f may change, and keeps those for which f returns
// true.
func (a *agenda) change(f func(x *item) (keep bool)) {
	kept := a.items[:0]
	for _, x := range a.items {
		if f(&x) {
			kept = append(kept, x)
		}
	}
	a.items = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		a.sink(i)
	}
}

func (a *agenda) copyFrom(o *agenda) { a.items = append(a.items[:0], o.items...) }

// Advance processes what is due up to and including time until, appending the
// requests that ended to dst, in order.
func (s *Simulator) Advance(until time.Duration, dst []Outcome) ([]Outcome, error) {
	s.putOff(until)
	for {
		to := until
		if x, ok := s.due(); ok {
			to = min(to, x.at)
		}
		var err error
		if dst, err = s.runEngines(to, dst); err != nil {
			return dst, err
		}
		x, ok := s.due() // what the engines did may have brought something forward
		switch {
		case ok && x.at <= to:
			dst, err = s.do(x, dst)
		case to == until:
			s.now = max(s.now, until)
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// putOff moves what only the next arrival sees to the last moment before it, which is
// until. Of several readings of a router's gauges the last alone counts. Beliefs fade with
// the arrival itself. Otherwise they would depend on how other items divide the time before
// it: hosts run one after the other from one item to the next, and the tokens of one host
// are noted before those of another.
func (s *Simulator) putOff(until time.Duration) {
	if s.routers == nil && s.drift == nil {
		return
	}
	s.agenda.change(func(x *item) bool {
		switch {
		case x.at > until:
		case x.what == gaugesRead:
			x.at += (until - x.at) / s.routers.Gauges * s.routers.Gauges
		case x.what == beliefsFade:
			x.at = until
		}
		return true
	})
}

// due returns the next item: the agenda's first, or the controllers' wake if that is
// earlier.
func (s *Simulator) due() (item, bool) {
	x, ok := s.agenda.first()
	if s.controllers == nil { // spares the comparison, on the path of every event
		return x, ok
	}
	if wake := (item{at: s.wakeDue(), what: controllersWake}); wake.at != control.Never && (!ok || wake.before(x)) {
		return wake, true
	}
	return x, ok
}

// do carries out the item, which is the next that is due, and appends the requests that it
// ends to dst.
func (s *Simulator) do(x item, dst []Outcome) ([]Outcome, error) {
	s.now = max(s.now, x.at)
	if x.what == controllersWake {
		s.controllers.Wake(s.now)
		return dst, s.fault
	}
	s.agenda.take()
	switch x.what {
	case hostLost:
		return s.lose(x.index, dst)
	case actionEnds:
		s.complete(x.index, x.at)
	case requestBreaks:
		s.breaking--
		o, err := s.broken(uint64(x.index), x.at)
		return append(dst, o), err
	case hostProbed:
		s.probe(x.index, x.at)
	case hostBack:
		s.markLoss(x.index, x.at)
	case gaugesRead:
		s.routers.scrape(s, x.index)
		x.at += s.routers.Gauges
		s.agenda.add(x)
	case beliefsFade:
		s.agenda.add(item{at: s.drift.fade(x.at), what: beliefsFade})
	}
	return dst, nil
}

// Drain processes what is due until every request has ended.
func (s *Simulator) Drain(dst []Outcome) ([]Outcome, error) {
	before := len(dst)
	s.agenda.change(func(x *item) bool { return x.what != gaugesRead && x.what != beliefsFade }) // no decision follows that would read them
	for s.began != s.ended {
		at, busy := s.order.first()
		x, due := s.due()
		var err error
		switch {
		case busy && (!due || at <= x.at):
			until := idle - 1
			if due {
				until = x.at
			}
			dst, err = s.runEngines(until, dst)
		case due && (busy || s.breaking > 0):
			dst, err = s.do(x, dst)
		default:
			err = s.lostRequests()
		}
		if err != nil {
			return dst, err
		}
	}
	for i := range dst[before:] {
		s.now = max(s.now, dst[before+i].Finished)
	}
	return dst, nil
}
