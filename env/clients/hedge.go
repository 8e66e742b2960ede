package clients

import (
	"time"

	"gearshift/env/agenda"
	"gearshift/router/balance"
)

// pair is a request of which a second copy may be sent.
type pair struct {
	x             request
	ids           [2]uint64 // of the copies
	copied        bool      // there is a second
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
	h.pairs[at] = pair{x: *x}
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
	copied.replica = int32(replica)
	p.copied, p.ids[1] = true, r.send(copied, now)
}

// settle ends the other copy of a request that is answered.
func (r *run) settle(x *request, id uint64, now time.Duration) {
	if x.pair == 0 {
		return
	}
	at := int(x.pair - 1)
	p := &r.hedges.pairs[at]
	if p.answered = true; p.copied {
		other := p.ids[0]
		if id == other {
			other = p.ids[1]
		}
		_, of, _ := r.take(other)
		r.hosts[of.host].Cancel(other, now)
		r.sim.Cancelled(of.host)
	}
	if p.due {
		r.hedges.free = append(r.hedges.free, at)
	}
}
