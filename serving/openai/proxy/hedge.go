package proxy

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"gearshift/serving/work"
)

// errOvertaken is the cause of an attempt's end when another answered first.
var errOvertaken = errors.New("another replica answered first")

// race is two attempts side by side, the second begun when the first is late.
// The first to answer wins. The other is cancelled, and its reservation given back at
// once; what is left of it ends by itself.
type race struct {
	*dispatch
	results chan *answer // with room for both, so that none waits
	running []*answer
}

// hedged is one attempt, or two if the first byte of an answer is late.
func (d *dispatch) hedged() *answer {
	r := &race{dispatch: d, results: make(chan *answer, 2)}
	defer r.cancel()
	first := r.start(d.Work.Replica)
	late := time.NewTimer(d.Settings().Retries.HedgeAfter)
	defer late.Stop()
	d.waits()
	select {
	case <-r.results:
		d.Alive.Rest()
		return r.finish(first)
	case <-late.C:
		d.Alive.Rest()
	}
	reserved, ok := d.second(first)
	if !ok {
		return r.finish(r.receive())
	}
	defer reserved.End() // unless the work has taken it over
	second := r.start(reserved.Replica)
	a, result := r.winner(), "lost"
	if a == second {
		d.Work.Adopt(reserved)
		result = "won"
	}
	if _, unfit := a.unfit(); unfit {
		result = "failed"
	}
	d.Metrics.Hedged(result)
	return a
}

// second reserves a place for an attempt next to the first, if the budget allows and there
// is a replica.
func (d *dispatch) second(first *answer) (*work.Reservation, bool) {
	now := d.Clock()
	d.decided = now
	if d.over(first) || len(d.tried)-d.lost > d.Settings().Retries.Max || !d.budget.take(now) {
		return nil, false
	}
	reserved, ok := d.Work.Second(d.tried)
	if !ok {
		d.budget.giveBack(now)
	}
	return reserved, ok
}

// start makes an attempt on a goroutine of its own.
func (r *race) start(replica int) *answer {
	a := r.attempt(replica)
	r.running = append(r.running, a)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				a.panicked = fmt.Sprintf("%v\n%s", v, debug.Stack())
			}
			r.results <- a
		}()
		r.send(a)
	}()
	return a
}

// receive waits for the next result.
func (r *race) receive() *answer {
	r.waits()
	defer r.Alive.Rest()
	return <-r.results
}

// winner waits for an answer that is fit, or for both.
func (r *race) winner() *answer {
	a := r.finish(r.receive())
	reason, unfit := a.unfit()
	if !unfit || r.over(a) {
		return a
	}
	r.report(a, reason)
	a.close()
	return r.finish(r.receive())
}

// finish takes an answer that has come out of the race. A panic on its way goes
// on here, where the request's own are dealt with.
func (r *race) finish(a *answer) *answer {
	for i := range r.running {
		if r.running[i] == a {
			r.running = append(r.running[:i], r.running[i+1:]...)
			break
		}
	}
	if a.panicked != nil {
		a.close()
		panic(a.panicked)
	}
	return a
}

// cancel ends what still runs, and does not wait for it.
func (r *race) cancel() {
	for _, a := range r.running {
		a.cancel(errOvertaken)
		go func() {
			late := <-r.results
			if late.panicked != nil {
				r.Log.Error("panic", "value", late.panicked, "replica", r.Table.Replicas[late.replica].Name)
			}
			late.close()
		}()
	}
}
