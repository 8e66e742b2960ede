package clients

import (
	"time"

	"gearshift/env"
	"gearshift/router/balance"
)

// pair is a request of which a second copy may be sent.
type pair struct {
	x             request
	ids           [2]uint64 // of the copies
	copied        bool      // there is a second
	due, answered bool
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
	at := r.pairs.put(pair{})
	x.pair = int32(at + 1)
	r.pairs.list[at].x = *x
	r.sim.Schedule(env.Item{At: now + after, Kind: hedgeDue, Index: at})
}

// second sends the second copy, if the first is not answered yet.
func (r *run) second(at int, now time.Duration) {
	p := &r.pairs.list[at]
	if p.due = true; p.answered {
		r.pairs.drop(at)
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
	p := &r.pairs.list[at]
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
		r.pairs.drop(at)
	}
}
