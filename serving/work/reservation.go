package work

import (
	"math"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// Move takes the work to a replica that is not among those tried: to another of
// its variant or, if others is set, of another variant that reaches the request's
// quality floor. Of each variant it is the replica with the fewest requests in
// flight. It reports false, and changes nothing, if there is none, or if only one can
// answer the request.
//
// Smaller variants come before larger ones, and near ones before far ones: the
// work has lost time already. The arrival has been counted and the choice made,
// so neither the rate estimate nor the policy takes note of the move.
func (w *Work) Move(tried []int, others bool) bool { return w.move(tried, others, false) }

// MoveOver is Move for work whose replica is lost: where all places are taken it takes one
// more, and waits in the engine.
func (w *Work) MoveOver(tried []int, others bool) bool {
	return w.move(tried, others, false) || w.move(tried, others, true)
}

func (w *Work) move(tried []int, others, over bool) bool {
	for _, v := range w.alternatives(others) {
		if p, ok := w.take(v, tried, over); ok {
			w.Adopt(p)
			return true
		}
	}
	return false
}

// alternatives are the variants that may answer, in the order in which Move tries them.
func (w *Work) alternatives(others bool) (variants []int) {
	table := w.adapter.router.Table()
	add := func(v int) {
		if table.Reaches(&w.Request, v) {
			variants = append(variants, v)
		}
	}
	add(w.Variant)
	for v := w.Variant - 1; others && v >= 0; v-- {
		add(v)
	}
	for v := w.Variant + 1; others && v < len(table.Variants); v++ {
		add(v)
	}
	return variants
}

// Replaceable reports whether a replica that could answer, and is not in skip, takes no requests now and may come to:
// whether one is cold, one is loading, one is out for its health or a slot without an engine.
func (w *Work) Replaceable(skip []int, others bool) (cold, loading, out bool) {
	table, ledger := w.adapter.router.Table(), w.adapter.router.Ledger()
	for _, v := range w.alternatives(others) {
		for _, i := range table.ReplicasOf(v) {
			if slices.Contains(skip, i) || slices.Contains(w.Request.Without, i) || !table.Serves(&w.Request, i) {
				continue
			}
			switch ledger.State(i) {
			case fleet.Loading:
				loading = true
			case fleet.Cold, fleet.Warm:
				cold = true
			case fleet.Down, fleet.Absent:
				out = out || ledger.Placed(i) == fleet.Up
			}
		}
	}
	return cold, loading, out
}

// Repick has pick choose the replica of the work's variant again, on a view in which the work's own
// place is free, and moves the work there. It returns whether it moved. It must not be called once
// the work has been sent, nor for a request that only one replica can answer.
func (w *Work) Repick(pick func(v *fleet.View) int) bool {
	a := w.adapter
	var v fleet.View
	a.router.Ledger().View(a.clock(), &v)
	if a.Hide != nil {
		defer w.without(a.Hide(&w.Request))()
	}
	v.Restrict(&w.Request)
	v.InFlight[w.Replica]--
	i := pick(&v)
	if i < 0 || i == w.Replica || !v.Available(i) || v.Table.Replicas[i].Variant != w.Variant {
		return false
	}
	v.InFlight[w.Replica]++
	lease, ok := a.router.Ledger().BeginAgain(&v, w.Lease, i, w.Request.Task)
	if !ok { // another request has taken a place there since
		return false
	}
	p := &Reservation{adapter: a, lease: lease, Variant: w.Variant, Replica: i}
	p.settle(w)
	w.Adopt(p)
	return true
}

// MoveTo takes the work to a replica of the variant that is not among those to skip. It
// reports false, and changes nothing, if there is none, or if only one can answer the
// request.
func (w *Work) MoveTo(variant int, skip []int) bool {
	if !w.adapter.router.Table().Reaches(&w.Request, variant) {
		return false
	}
	p, ok := w.take(variant, skip, false)
	if ok {
		w.Adopt(p)
	}
	return ok
}

// Others appends to the replicas up to n more of the work's variant: those that take requests, full or not, with the
// fewest in flight first, and then those that are out for their health, which may have come back by now. Where only one
// replica can answer the request there are none.
func (w *Work) Others(replicas []int, n int) []int {
	if w.Request.Only > 0 {
		return replicas
	}
	ledger := w.adapter.router.Ledger()
	var v fleet.View
	ledger.View(w.adapter.clock(), &v)
	for n += len(replicas); len(replicas) < n; {
		best, rank := -1, 0
		for _, i := range v.Table.ReplicasOf(w.Variant) {
			if slices.Contains(replicas, i) || slices.Contains(w.Request.Without, i) {
				continue
			}
			r := int(v.InFlight[i])
			switch {
			case v.Uncapped(i):
			case ledger.State(i) == fleet.Down && ledger.Placed(i) == fleet.Up:
				r += math.MaxInt32
			default:
				continue
			}
			if best < 0 || r < rank {
				best, rank = i, r
			}
		}
		if best < 0 {
			break
		}
		replicas = append(replicas, best)
	}
	return replicas
}

// Follow moves the work to the replica of its variant that has the request already, even if it is full. If that takes
// no requests, Follow reports false and changes nothing.
func (w *Work) Follow(replica int) bool {
	ledger := w.adapter.router.Ledger()
	var v fleet.View
	for {
		if ledger.View(w.adapter.clock(), &v); !v.Uncapped(replica) {
			return false
		}
		if lease, ok := ledger.BeginOver(&v, w.Lease, replica, w.Request.Task); ok {
			p := &Reservation{adapter: w.adapter, lease: lease, Variant: v.Table.Replicas[replica].Variant, Replica: replica}
			p.settle(w)
			w.Adopt(p)
			return true
		}
	}
}

// Second reserves a place on another replica of the variant for the same request.
func (w *Work) Second(tried []int) (*Reservation, bool) {
	return w.take(w.Variant, tried, false)
}

// take takes a place for the request on a replica of the variant, except those tried; over is
// whether limits do not hold it back.
func (w *Work) take(variant int, tried []int, over bool) (*Reservation, bool) {
	if w.Request.Only > 0 {
		return nil, false
	}
	if len(w.Request.Without) > 0 {
		tried = slices.Concat(tried, w.Request.Without)
	}
	p, ok := w.adapter.take(w.Lease, variant, w.Request.Task, tried, over)
	if ok {
		p.settle(w)
	}
	return p, ok
}

// Adopt moves the work to the reservation, and gives its own place back.
func (w *Work) Adopt(p *Reservation) {
	if w.show() {
		defer w.Hide()
	}
	w.hold(0)
	w.adapter.release(w.Replica, w.bound)
	w.Lease.End()
	w.Lease, w.Replica, w.Variant, w.held, w.bound = p.lease, p.Replica, p.Variant, p.held, p.bound
	*p = Reservation{adapter: p.adapter}
	task := w.task()
	w.Lease.Settle(task.Shortfall(task.Utility(w.Variant, fleet.Times{}, fleet.Deadlines{}))) // as if decided so
	w.moved()
}

// Reservation is what a request holds on a replica in addition to its work: a lease, the
// tokens that it holds there, and the deadline kept. Its zero value holds nothing.
type Reservation struct {
	adapter          *Adapter
	lease            fleet.Lease
	Variant, Replica int
	held             int
	bound            time.Duration
}

// settle makes the place one for w.
func (p *Reservation) settle(w *Work) {
	p.hold(w.held)
	p.bound = p.adapter.keep(p.Replica, w.bound)
}

func (p *Reservation) hold(tokens int) {
	p.adapter.held[p.Replica].Add(int64(tokens - p.held))
	p.held = tokens
}

// End gives the reservation back, unless work has adopted it.
func (p *Reservation) End() {
	p.hold(0)
	p.adapter.release(p.Replica, p.bound)
	p.bound = 0
	p.lease.End() // last, since it wakes those that wait for room
}

// take takes a place for the request of the task that holds the lease, on the variant's
// replica with the fewest requests in flight, except those tried. Over is whether limits do not
// hold it back.
func (a *Adapter) take(held fleet.Lease, variant, task int, tried []int, over bool) (*Reservation, bool) {
	ledger := a.router.Ledger()
	begin, free := ledger.BeginAgain, (*fleet.View).Available
	if over {
		begin, free = ledger.BeginOver, (*fleet.View).Uncapped
	}
	var v fleet.View
	for {
		ledger.View(a.clock(), &v)
		best := -1
		for _, i := range v.Table.ReplicasOf(variant) {
			if free(&v, i) && !slices.Contains(tried, i) && (best < 0 || v.InFlight[i] < v.InFlight[best]) {
				best = i
			}
		}
		if best < 0 {
			return nil, false
		}
		// Others take places too: of those that come at once, each sees the last on its host.
		if lease, ok := begin(&v, held, best, task); ok {
			return &Reservation{adapter: a, lease: lease, Variant: variant, Replica: best}, true
		}
	}
}
