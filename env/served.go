package env

import (
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/queue"
	"gearshift/workloads"
)

// AsServed makes requests wait for room, be degraded and be refused as in the router that
// serves, by the same code. A decision is then on a request that can begin, at the time at
// which it can. Refused requests have no decision, and are outcomes without one.
type AsServed struct {
	// Gate decides where a request may begin. Nil allows each replica with a free place.
	Gate router.Gate
	// Limits bound the waiting. Simulated clients do not retry.
	Limits router.Limits
	// Classes lists the classes of requests; if empty, all requests are of one class without a name. ByTask holds
	// the class of each task's requests, and First the variant that a class gets first, or nil, by their indices.
	Classes []queue.Class
	ByTask  []int
	First   []*fleet.First
	// Wakes reports whether a controller may load or wake a replica, so that requests are held for it. Nil: each.
	Wakes func(replica int) bool
}

// served holds the waiting requests of an episode as served. The time between two decisions
// is a loop of passes through the backlog: at each arrival, whenever a request has ended or
// a replica comes or goes, and when the backlog asks for one. A pass pauses at each request
// that can begin, for its decision.
type served struct {
	env     *Environment
	backlog *router.Backlog[*arrived]
	bounds  []router.Bounds // by replica
	begins  []beginning     // by decision
	free    []*arrived

	next     workloads.Arrival // the next arrival, unless over is set
	number   int               // of it
	over     bool
	arrivals int
	now      time.Duration

	passing  bool     // a pass is under way
	newcomer *arrived // the request whose arrival began the pass; nil for other passes
	expired  []*router.Waiter[*arrived]
	early    []Outcome // before the first decision
}

// beginning records how a request was begun, until it ends.
type beginning struct {
	replica  int
	deadline time.Duration // counted among the replica's bounds
	degraded bool
}

// arrived is a request that has no decision yet.
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
	classes := c.Classes
	if len(classes) == 0 {
		classes = []queue.Class{{}}
	}
	s.backlog = router.NewBacklog(e.config.Table, classes, c.Limits, func(w *router.Waiter[*arrived]) error { return s.try(w.Value) })
	if e.config.Controllers != nil {
		s.backlog.Holds(router.Holder{Ledger: e.ledger, Wakes: c.Wakes, Nudge: e.sim.Rouse})
	}
	return s
}

// Held implements [fleet.Holder].
func (s *served) Held(replica int) int { return s.env.sim.Held(replica) }

// Tightest implements [fleet.Bounder]: the tightest deadline of the requests on a replica.
func (s *served) Tightest(replica int) time.Duration { return s.bounds[replica].Tightest() }

// try reports with an error that the request cannot begin now. Without one the
// environment's view is of this moment, ready for the decision.
func (s *served) try(a *arrived) error {
	s.env.request = a.request
	return s.env.look(s.now)
}

// start runs to the first decision. It reports false if there is none.
func (s *served) start() (ok bool, err error) {
	if s.read(); s.over {
		return false, nil
	}
	s.early, ok, err = s.advance(nil)
	return ok, err
}

// advance runs until a request can begin, and makes it the environment's present one. It
// reports false if none is left. Requests that end or are refused meanwhile are appended to
// dst.
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

// pass continues a pass: to the next request that can begin, which it returns, or to the
// end of the pass.
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

// stay decides about a newcomer that the pass has not begun: it waits, is refused, or is
// returned because it can begin.
func (s *served) stay(a *arrived, dst []Outcome) (*arrived, []Outcome) {
	settled, evicted, refusal := s.backlog.Stay(&a.Waiter, s.now)
	if evicted != nil {
		dst = s.refuse(evicted.Value, dst)
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

// wait runs until a pass is due, and begins it, or until the next arrival.
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

// arrive takes in the next request. It returns the request if it need not wait: no other
// waits, and there is room. Otherwise the request joins the backlog, and a pass begins.
func (s *served) arrive(dst []Outcome) (*arrived, []Outcome, error) {
	a := s.fresh()
	s.env.note(&a.arrival)
	s.read()
	if s.backlog.Len() == 0 {
		if a.Err = s.try(a); a.Err == nil {
			return a, dst, nil
		}
		if !s.backlog.Waits(a.Err) || s.env.config.AsServed.Limits.MaxQueue == 0 {
			return nil, s.refuse(a, dst), nil
		}
	}
	s.backlog.Join(&a.Waiter)
	s.backlog.Pass()
	s.newcomer, s.passing = a, true
	return nil, dst, nil
}

// fresh makes the next arrival a request without a decision.
func (s *served) fresh() *arrived {
	var a *arrived
	if n := len(s.free); n > 0 {
		a, s.free = s.free[n-1], s.free[:n-1]
	} else {
		a = new(arrived)
	}
	*a = arrived{arrival: s.next, request: s.env.requestOf(&s.next, s.number)}
	a.Waiter = router.Waiter[*arrived]{Value: a, Request: &a.request, Variant: -1}
	if c := s.env.config.AsServed; len(c.Classes) > 0 {
		a.Class = c.ByTask[a.request.Task]
		a.request.First = c.First[a.Class]
	}
	return a
}

// read takes the next arrival from the stream. Those before it that come as jobs it passes on.
func (s *served) read() {
	for {
		next, more := s.env.stream.Next()
		if s.next, s.number, s.over = next, s.arrivals, !more; s.over {
			return
		}
		s.arrivals++
		if !s.env.sim.source.takes(next.Task) {
			return
		}
		s.env.sim.source.divert(s.env.requestOf(&s.next, s.number))
	}
}

// present makes the request, for which the view was just brought up to date, the
// environment's present one.
func (s *served) present(a *arrived) {
	s.env.request, s.env.arrival, s.env.now = a.request, a.arrival, s.now
	s.env.observe()
	s.free = append(s.free, a)
}

// refuse appends the outcome of a request that is refused.
func (s *served) refuse(a *arrived, dst []Outcome) []Outcome {
	s.free = append(s.free, a)
	return append(dst, Outcome{
		Decision: -1, Request: a.request, Variant: -1, Replica: -1, OutputTokens: a.arrival.OutputTokens,
		FirstToken: s.now, Finished: s.now, Waited: s.now - a.request.Arrival, Refused: router.Refused(a.Err),
	})
}

// begun records how the request of a decision was begun, and adds its deadline to the
// replica's bounds.
func (s *served) begun(decision int, c *router.Choice) {
	r := &s.env.request
	b := beginning{
		replica: c.Replica, deadline: router.Promise(&s.env.config.Table.Tasks[r.Task], r, c.Pace),
		degraded: c.Policy == router.Degraded,
	}
	s.bounds[b.replica].Add(b.deadline)
	s.begins = append(s.begins[:decision], b)
}

// ended completes the outcomes of requests that have ended, and removes their deadlines
// from the bounds.
func (s *served) ended(outcomes []Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		if o.Decision < 0 { // of a job
			continue
		}
		b := &s.begins[o.Decision]
		s.bounds[b.replica].Remove(b.deadline)
		o.Degraded = b.degraded
	}
}

// advanceToRoom is Advance that also returns as soon as requests end or an item of the
// agenda is carried out: there may be room then, which room reports.
func (s *Simulator) advanceToRoom(until time.Duration, dst []Outcome) (_ []Outcome, room bool, err error) {
	before := s.ended + s.departed
	for {
		at, busy := s.order.first()
		x, due := s.due()
		switch {
		case busy && at <= until && (!due || at <= x.At):
			dst, err = s.runEngines(at, dst)
			s.now = max(s.now, at)
			room = s.ended+s.departed > before
		case due && x.At <= until:
			dst, err = s.do(x, dst)
			room = x.Kind < followerDue // what a follower begins makes none
		default:
			s.now = max(s.now, until)
			return dst, false, nil
		}
		if err != nil || room {
			return dst, room, err
		}
	}
}
