package env

import (
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/queue"
	"gearshift/workloads"
)

// AsServed has requests wait for room, be degraded and be refused as the live router
// does it, by the same code. A decision is then on a request that can be begun, at the
// time at which it can; those that are refused never come to one, and are outcomes of
// their own.
type AsServed struct {
	// Gate says where a request may be begun. Nil: wherever there is a place.
	Gate router.Gate
	// Limits bound the waiting. Clients of the simulator do not come again.
	Limits router.Limits
}

// served is what waits in an episode as served. The time between two decisions is a
// loop of passes through the backlog: at each arrival, whenever a request has ended or
// a replica comes or goes, and when the backlog asks for it. A pass pauses at each
// request that can be begun, for its decision.
type served struct {
	env     *Environment
	backlog *router.Backlog[*arrived]
	bounds  []router.Bounds // by replica
	begins  []beginning     // by decision
	free    []*arrived

	next     workloads.Arrival // that comes next, unless over is set
	over     bool
	arrivals int
	now      time.Duration

	passing  bool     // a pass is under way
	newcomer *arrived // whose arrival began it; nil of another pass
	expired  []*router.Waiter[*arrived]
	early    []Outcome // before the first decision
}

// beginning is how a request was begun.
type beginning struct {
	replica  int
	deadline time.Duration // that it keeps there
	degraded bool
}

// arrived is a request without a decision.
type arrived struct {
	router.Waiter[*arrived]
	request fleet.Request
	arrival workloads.Arrival
	settled bool
}

func newServed(e *Environment) *served {
	c := e.config.AsServed
	if c == nil {
		return nil
	}
	s := &served{env: e, bounds: make([]router.Bounds, len(e.config.Table.Replicas))}
	s.backlog = router.NewBacklog(e.config.Table, []queue.Class{{}}, c.Limits, func(w *router.Waiter[*arrived]) error { return s.try(w.Value) })
	return s
}

// Held and Tightest implement [fleet.Holder] and [fleet.Bounder].
func (s *served) Held(replica int) int { return s.env.sim.Held(replica) }

// Tightest is that of the deadlines of the requests on a replica.
func (s *served) Tightest(replica int) time.Duration { return s.bounds[replica].Tightest() }

// try looks whether the request can be begun now. If so the environment's view is of
// this moment, for its decision.
func (s *served) try(a *arrived) error {
	s.env.request = a.request
	return s.env.look(s.now)
}

// start is the way to the first decision. It reports false if there is none.
func (s *served) start(first workloads.Arrival) (ok bool, err error) {
	s.next = first
	s.early, ok, err = s.advance(nil)
	return ok, err
}

// advance lets time pass until a request can be begun, and makes it the environment's
// present one. It reports false if none is left. Requests that end or are refused
// meanwhile are appended to dst.
func (s *served) advance(dst []Outcome) (_ []Outcome, ok bool, err error) {
	for {
		var a *arrived
		switch {
		case s.passing:
			a, dst = s.pass(dst)
		case s.over && s.backlog.Len() == 0:
			return dst, false, nil
		default:
			if a, dst, err = s.wait(dst); err != nil {
				return dst, false, err
			}
		}
		if a != nil {
			s.present(a)
			return dst, true, nil
		}
	}
}

// pass goes on with a pass: to the next request that can be begun, or to its end.
func (s *served) pass(dst []Outcome) (*arrived, []Outcome) {
	for w := s.backlog.Next(s.now); w != nil; w = s.backlog.Next(s.now) {
		w.Value.settled = true
		if w.Err == nil {
			return w.Value, dst
		}
		dst = s.refuse(w.Value, dst)
	}
	s.passing = false
	if s.newcomer == nil {
		s.expired = s.backlog.Expire(s.now, s.expired[:0])
		for _, w := range s.expired {
			dst = s.refuse(w.Value, dst)
		}
		return nil, dst
	}
	a := s.newcomer
	if s.newcomer = nil; a.settled {
		return nil, dst
	}
	return s.stay(a, dst)
}

// stay decides on a newcomer that the pass has not begun.
func (s *served) stay(a *arrived, dst []Outcome) (*arrived, []Outcome) {
	settled, displaced, refusal := s.backlog.Stay(&a.Waiter, s.now)
	if displaced != nil {
		dst = s.refuse(displaced.Value, dst)
	}
	switch {
	case refusal != nil:
		a.Err = refusal
	case !settled: // it waits
		return nil, dst
	case a.Err == nil:
		return a, dst
	}
	return nil, s.refuse(a, dst)
}

// wait lets time pass until a pass is due, and begins it, or until the next arrival.
func (s *served) wait(dst []Outcome) (*arrived, []Outcome, error) {
	at, waiting := s.backlog.Due(s.now)
	arrives := !s.over && (!waiting || s.next.At <= at)
	if arrives {
		at = s.next.At
	}
	before := len(dst)
	var room bool
	var err error
	if waiting {
		dst, room, err = s.env.sim.advanceToRoom(at, dst)
	} else {
		dst, err = s.env.sim.Advance(at, dst)
	}
	if err != nil {
		return nil, dst, err
	}
	s.ended(dst[before:])
	if s.now = s.env.sim.Now(); arrives && !room {
		return s.arrive(dst)
	}
	s.backlog.Pass()
	s.passing = true
	return nil, dst, nil
}

// arrive takes in the next request. It is returned if it need not wait: nobody does,
// and there is room. Otherwise it joins those who wait, which takes a pass.
func (s *served) arrive(dst []Outcome) (*arrived, []Outcome, error) {
	a := s.fresh()
	s.env.note(&a.arrival)
	next, more := s.env.stream.Next()
	s.next, s.over = next, !more
	if s.backlog.Len() == 0 {
		if a.Err = s.try(a); a.Err == nil {
			return a, dst, nil
		}
		if !router.Scarce(a.Err) || s.env.config.AsServed.Limits.MaxQueue == 0 {
			return nil, s.refuse(a, dst), nil
		}
	}
	s.backlog.Join(&a.Waiter)
	s.backlog.Pass()
	s.newcomer, s.passing = a, true
	return nil, dst, nil
}

// fresh is the next request.
func (s *served) fresh() *arrived {
	var a *arrived
	if n := len(s.free); n > 0 {
		a, s.free = s.free[n-1], s.free[:n-1]
	} else {
		a = new(arrived)
	}
	*a = arrived{arrival: s.next, request: s.env.requestOf(&s.next, s.arrivals)}
	a.Waiter = router.Waiter[*arrived]{Value: a, Request: &a.request, Variant: -1}
	s.arrivals++
	return a
}

// present makes the request, at which the view has just looked, the present one.
func (s *served) present(a *arrived) {
	s.env.request, s.env.arrival, s.env.now = a.request, a.arrival, s.now
	s.env.observe()
	s.free = append(s.free, a)
}

// refuse appends the outcome of a request that is not begun.
func (s *served) refuse(a *arrived, dst []Outcome) []Outcome {
	s.free = append(s.free, a)
	return append(dst, Outcome{
		Decision: -1, Request: a.request, Variant: -1, Replica: -1, OutputTokens: a.arrival.OutputTokens,
		FirstToken: s.now, Finished: s.now, Waited: s.now - a.request.Arrival, Refused: router.Refused(a.Err),
	})
}

// begun notes what is to be known of the request of a decision until it ends.
func (s *served) begun(decision int, c *router.Choice) {
	r := &s.env.request
	b := beginning{
		replica: c.Replica, deadline: router.Promise(&s.env.config.Table.Tasks[r.Task], r, c.Pace),
		degraded: c.Policy == router.Degraded,
	}
	s.bounds[b.replica].Add(b.deadline)
	s.begins = append(s.begins[:decision], b)
}

// ended completes the outcomes of requests that have ended, and forgets their deadlines.
func (s *served) ended(outcomes []Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		b := &s.begins[o.Decision]
		s.bounds[b.replica].Remove(b.deadline)
		o.Degraded = b.degraded
	}
}

// advanceToRoom is Advance that returns with the first requests that end, and with
// what the agenda brings: there may be room then.
func (s *Simulator) advanceToRoom(until time.Duration, dst []Outcome) (_ []Outcome, room bool, err error) {
	before := len(dst)
	for {
		at, busy := s.order.first()
		x, due := s.due()
		switch {
		case busy && at <= until && (!due || at <= x.at):
			dst, err = s.runEngines(at, dst)
			s.now = max(s.now, at)
			room = len(dst) > before
		case due && x.at <= until:
			dst, err = s.do(x, dst)
			room = true
		default:
			s.now = max(s.now, until)
			return dst, false, nil
		}
		if err != nil || room {
			return dst, room, err
		}
	}
}
