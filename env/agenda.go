package env

import (
	"time"

	"gearshift/router/control"
)

// What is due at times that no engine sets, in the order of equal times. All come after the
// engines' events of that time. Engines have another heap, since each host runs by itself from
// one item of the agenda to the next. An item's index is that of a loss among the losses; of a
// return or a probe, the host; of an action, the replica; of a request, its sequence ID; of
// gauges and shares, the router that reads them.
const (
	hostLost ItemKind = iota
	hostBack
	actionEnds
	requestBreaks
	hostProbed
	loadsMeasured
	jobArrives
	controllersWake // which has no item: [Simulator.wakeDue]
	gaugesRead
	sharesTaken
	sharesHeard
	beliefsFade
	hostRefuses
	followerDue // and from it on, what a follower has scheduled
)

// Advance processes what is due up to and including time until, appending the
// requests that ended to dst, in order.
func (s *Simulator) Advance(until time.Duration, dst []Outcome) ([]Outcome, error) {
	s.putOff(until)
	for !s.paused {
		to := until
		if x, ok := s.due(); ok {
			to = min(to, x.At)
		}
		var err error
		if dst, err = s.runEngines(to, dst); err != nil {
			return dst, err
		}
		x, ok := s.due() // what the engines did may have brought something forward
		switch {
		case s.paused:
		case ok && x.At <= to:
			dst, err = s.do(x, dst)
		case to == until:
			s.now = max(s.now, until)
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// putOff postpones work that only the next arrival reads to the last moment before it, until. Of several readings
// of a router's gauges, or of the others' shares, only the last one counts. Beliefs fade with the arrival itself.
// Otherwise they would depend on how other items divide the time before it: hosts run one after the other from one
// item to the next, and the tokens of one host are noted before those of another.
func (s *Simulator) putOff(until time.Duration) {
	if s.routers == nil && s.drift == nil {
		return
	}
	s.agenda.Change(func(x *Item) bool {
		switch {
		case x.At > until:
		case x.Kind == gaugesRead:
			x.At += (until - x.At) / s.routers.Gauges * s.routers.Gauges
		case x.Kind == sharesTaken:
			x.At += max(0, until-s.routers.Delay-x.At) / s.routers.Shares * s.routers.Shares
		case x.Kind == beliefsFade:
			x.At = until
		}
		return true
	})
}

// due returns the next item: the agenda's first, or the controllers' wake if that is
// earlier.
func (s *Simulator) due() (Item, bool) {
	x, ok := s.agenda.First()
	if s.controllers == nil { // spares the comparison, on the path of every event
		return x, ok
	}
	if wake := (Item{At: s.wakeDue(), Kind: controllersWake}); wake.At != control.Never && (!ok || wake.Before(x)) {
		return wake, true
	}
	return x, ok
}

// do carries out the item, which is the next that is due, and appends the requests that it
// ends to dst.
func (s *Simulator) do(x Item, dst []Outcome) ([]Outcome, error) {
	s.now = max(s.now, x.At)
	if x.Kind == controllersWake {
		s.beat()
		s.controllers.Wake(s.now)
		return dst, s.fault
	}
	s.agenda.Take()
	switch x.Kind {
	case hostLost:
		return s.lose(x.Index, dst)
	case actionEnds:
		s.proceed(x.Index, x.At)
	case requestBreaks:
		s.breaking--
		if uint64(x.Index)&ofJobs != 0 {
			s.endJob(uint64(x.Index), x.At, true)
			return dst, nil
		}
		if s.follows(uint64(x.Index)) {
			s.left(uint64(x.Index))
			s.follower.Broken(uint64(x.Index), x.At)
			return dst, nil
		}
		o, err := s.broken(uint64(x.Index), x.At)
		return append(dst, o), err
	case hostProbed:
		s.probe(x.Index, x.At)
	case loadsMeasured:
		if s.follower.Measure(x.At); s.period > 0 {
			s.agenda.Add(Item{At: x.At + s.period, Kind: loadsMeasured})
		}
	case jobArrives:
		s.source.arrive(x.At, x.Index == 1)
	case hostRefuses:
		if s.down[x.Index] > 0 {
			s.gone[x.Index] = true
			s.markLoss(x.Index)
		}
	case hostBack:
		s.bringBack(x.Index, x.At)
	case gaugesRead:
		s.routers.scrape(s, x.Index)
		x.At += s.routers.Gauges
		s.agenda.Add(x)
	case sharesTaken, sharesHeard:
		s.routers.share(s, x)
	case beliefsFade:
		s.agenda.Add(Item{At: s.drift.fade(x.At), Kind: beliefsFade})
	default:
		x.Kind -= followerDue
		return dst, s.follower.(Scheduled).Due(x)
	}
	return dst, nil
}

// forDecisions reports whether only future decisions read the item's effect.
func (x *Item) forDecisions() bool { return x.Kind >= gaugesRead && x.Kind <= beliefsFade }

// Drain processes what is due until every request has ended.
func (s *Simulator) Drain(dst []Outcome) ([]Outcome, error) {
	before := len(dst)
	s.agenda.Change(func(x *Item) bool { return !x.forDecisions() }) // no decision follows that would read them
	for s.began != s.ended || s.source.open() {
		at, busy := s.order.first()
		x, due := s.due()
		var err error
		switch {
		case busy && (!due || at <= x.At):
			until := idle - 1
			if due {
				until = x.At
			}
			dst, err = s.runEngines(until, dst)
		case due && (busy || s.breaking > 0 || s.source.open()):
			dst, err = s.do(x, dst)
		default:
			err = s.lostRequests()
		}
		if err != nil {
			return dst, err
		}
	}
	dst = s.source.flush(dst)
	for i := range dst[before:] {
		s.now = max(s.now, dst[before+i].Finished)
	}
	return dst, nil
}
