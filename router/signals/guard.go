package signals

import (
	"math"

	"gearshift/router/fleet"
)

const (
	// most that any counter can sensibly be.
	most = 1e9
	// slack is by how many requests a counter may grow between two reports whatever it was.
	slack = 16
	// frozenAfter is how many equal reports in a row show that the counters stand still, where the
	// router's own requests have moved by frozenMoves meanwhile.
	frozenAfter, frozenMoves = 8, 3
	// workSlack is by how many seconds outstanding work may grow between two reports whatever it
	// was, and workMost what it can be at first.
	workSlack, workMost = 10, 3600
	// coresMost is more than any host has.
	coresMost = 4096
)

// guard holds what one source says of one replica against what is possible and what the router
// knows itself. Its zero value has heard nothing.
type guard struct {
	heard      bool
	said, used Load // the last report, as it came and as it was bounded
	prior      Load // the report before it, as it came
	own        int  // the router's own requests then
	same       int  // reports in a row that said the same
	low, high  int  // of the router's own requests over those
}

// check bounds the load by what is plausible, in place. It returns the gravest fault.
func (g *guard) check(l *Load, model uint32, at *fleet.Replica, own Count) Fault {
	if l.Model != 0 && l.Model != model {
		return Another
	}
	fault := clean(l)
	if !l.SaysLoad() || fault != Fine && !l.saysWork() { // what is left of it is not to be believed either
		return Impossible
	}
	if g.restarted(l) {
		*g, fault = guard{}, Restarted
	}
	if g.stands(l, own) {
		return Frozen
	}
	if g.bound(l, at, own) {
		fault = max(fault, Implausible)
	}
	g.used, g.own, g.heard = *l, own.InFlight, true
	return fault
}

// clean takes out the values that no counter can have.
func clean(l *Load) (fault Fault) {
	for _, v := range l.values() {
		if *v == Unsaid || *v >= 0 && *v < most { // NaN fails
			continue
		}
		*v, fault = Unsaid, Implausible
	}
	if l.Cores == 0 || l.Cores > coresMost {
		l.Cores, fault = Unsaid, max(fault, Implausible)
	}
	if l.KVUse > 1 {
		l.KVUse, fault = 1, max(fault, Implausible)
	}
	return fault
}

// restarted reports whether the engine is another process than the one that spoke last.
func (g *guard) restarted(l *Load) bool {
	if !g.heard {
		return false
	}
	if l.Instance != 0 && g.said.Instance != 0 && l.Instance != g.said.Instance {
		return true
	}
	return l.Answered >= 0 && l.Answered < g.said.Answered
}

// stands reports whether the counters have stood still while the router's own requests moved. Of
// an engine that says only how many wait, none may wait for long.
func (g *guard) stands(l *Load, own Count) bool {
	equal := g.heard && still(*l) == still(g.said)
	g.prior, g.said = g.said, *l
	// The share of a KV cache alone is too coarse to move with each request.
	if !equal || l.Requests < 0 && l.Host < 0 && l.Work < 0 && (l.KVUse < 0 || l.Waiting < 0) {
		g.same, g.low, g.high = 1, own.InFlight, own.InFlight
		return false
	}
	g.same++
	g.low, g.high = min(g.low, own.InFlight), max(g.high, own.InFlight)
	return g.same >= frozenAfter && g.high-g.low >= frozenMoves
}

// still returns the part of the load that moves with the requests in flight.
func still(l Load) Load {
	l.Answered, l.Rate, l.Errors, l.Cores = Unsaid, Unsaid, Unsaid, Unsaid
	return l
}

// bound limits what the counters may jump by, and sets them at least to what the router itself has
// there. It reports whether that changed anything grave.
func (g *guard) bound(l *Load, at *fleet.Replica, own Count) (changed bool) {
	before := g.used
	if !g.heard {
		before = NewLoad()
	}
	limit := float64(at.Limit)
	if at.Limit <= 0 {
		limit = unlimited
	}
	mine, prior := float64(own.InFlight), &g.prior
	if !g.heard {
		prior = l
	}
	changed = grows(&l.Requests, before.Requests, prior.Requests, mine+limit, mine)
	changed = grows(&l.Waiting, before.Waiting, prior.Waiting, mine+limit, mine) || changed
	changed = grows(&l.Host, before.Host, prior.Host, most, mine) || changed
	changed = grows(&l.Examples, before.Examples, prior.Examples, most, most) || changed
	if l.Work >= 0 {
		ceiling := float64(workMost)
		if before.Work >= 0 {
			ceiling = 4*before.Work + workSlack
		}
		if l.Work > ceiling {
			l.Work, changed = ceiling, true
		}
	}
	if l.Cores > 0 && before.Cores > 0 && l.Cores != before.Cores { // without a restart
		l.Cores, changed = before.Cores, true
	}
	return g.floor(l, own) || changed
}

// grows bounds a counter by a ceiling, and by twice what it was before, with some slack, unless the
// router's own requests explain more. It stays what it was until the next report confirms the jump:
// prior is what the report before this one said.
func grows(v *float64, before, prior, ceiling, own float64) bool {
	if before >= 0 {
		ceiling = min(ceiling, max(2*before, own)+slack)
	}
	switch {
	case *v <= ceiling:
		return false
	case before >= 0 && prior <= ceiling:
		*v = max(before, own)
	default:
		*v = ceiling
	}
	return true
}

// floor sets the counts of requests at least to those that the router had on the replica at this
// report and at the one before. It reports whether they were far below.
func (g *guard) floor(l *Load, own Count) (far bool) {
	if !g.heard {
		return false
	}
	least := float64(min(g.own, own.InFlight))
	for _, v := range []*float64{&l.Requests, &l.Host} {
		if *v >= 0 && *v < least {
			far = far || least >= 4 && *v < least/2
			*v = math.Round(least)
		}
	}
	return far
}
