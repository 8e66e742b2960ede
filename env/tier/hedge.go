package tier

import (
	"slices"
	"time"

	"gearshift/env/agenda"
	"gearshift/router/balance"
)

// pair is a request of which a second copy may be sent.
type pair struct {
	x             request
	second        int32 // the replica of the copy; −1 where there is none
	due, answered bool
}

// hedges are the requests that may have two copies, by number; the free numbers are used again.
type hedges struct {
	pairs []pair
	free  []int
}

// hedge plans a second copy of the request, if the rule wants one.
func (r *run) hedge(x *request, now time.Duration) {
	rule, ok := r.Chooser.(balance.Hedger)
	if !ok {
		return
	}
	after, ok := rule.Hedge(r.knowledge(int(x.client), int(x.model)), now)
	if !ok {
		return
	}
	h := &r.hedges
	if len(h.free) == 0 {
		h.free, h.pairs = append(h.free, len(h.pairs)), append(h.pairs, pair{})
	}
	at := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	x.pair = int32(at + 1)
	h.pairs[at] = pair{x: *x, second: -1}
	r.agenda.Add(agenda.Item{At: now + after, Kind: hedgeDue, Index: at})
}

// second sends the second copy, if the first is not answered yet.
func (r *run) second(at int, now time.Duration) {
	p := &r.hedges.pairs[at]
	if p.due = true; p.answered {
		r.hedges.free = append(r.hedges.free, at)
		return
	}
	k := r.knowledge(int(p.x.client), int(p.x.model))
	replica := r.Chooser.(balance.Hedger).Second(k, int(p.x.replica), now, r.random)
	if replica < 0 {
		return
	}
	k.Own[replica]++
	r.result.Copies++
	copied := p.x
	p.second, copied.replica = int32(replica), int32(replica)
	r.send(copied, now)
}

// settle ends the other copy of a request that is answered.
func (r *run) settle(x *request, now time.Duration) {
	if x.pair == 0 {
		return
	}
	at := int(x.pair - 1)
	p := &r.hedges.pairs[at]
	if p.answered = true; p.second >= 0 {
		r.cancel(x, p.x.replica+p.second-x.replica, now)
	}
	if p.due {
		r.hedges.free = append(r.hedges.free, at)
	}
}

// cancel ends the copy of a request on another replica without an answer.
func (r *run) cancel(x *request, replica int32, now time.Duration) {
	r.knowledge(int(x.client), int(x.model)).Own[replica]--
	on := r.deployed.models[x.model].on[replica]
	r.slot(int(x.model), on).running--
	h := &r.hosts[on]
	h.advance(now)
	for i := range h.running {
		if h.running[i].pair == x.pair {
			gone := h.running.take(i)
			h.stop(&gone, r.Models)
			h.forget(&gone, r.Models)
			break
		}
	}
	r.schedule(on)
}

// take removes the i-th request.
func (r *requests) take(i int) request {
	x := (*r)[i]
	*r = slices.Delete(*r, i, i+1)
	for j := len(*r)/2 - 1; j >= 0; j-- {
		r.sink(j)
	}
	return x
}
