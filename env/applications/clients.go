package applications

import (
	"math/rand/v2"
	"time"

	"gearshift/env"
	"gearshift/router/control"
	"gearshift/router/failover"
)

// application is the clients' side of one: where they send, and what they wait for.
type application struct {
	target  failover.Assignment // Nowhere: they know none
	ok      bool
	next    failover.Assignment // to which they switch
	at      time.Duration
	random  *rand.Rand
	arrival time.Duration   // of the next request
	flying  []time.Duration // when those were sent that are being answered
	waiting []time.Duration // when those were sent that nothing answers
	failed  time.Duration   // when the first request failed since the last answer; −1: none
	sends   bool            // the next request is on the agenda
}

// draw draws the next arrival.
func (sim *simulation) draw(i int) {
	a := &sim.apps[i]
	a.arrival += time.Duration(a.random.ExpFloat64() / sim.Problem.Applications[i].Rate * float64(time.Second))
}

// catchUp lets the requests come that are sent until now, under what has held since the last call:
// what they are sent to answers, or does not.
func (sim *simulation) catchUp(i int) {
	a := &sim.apps[i]
	for a.arrival <= sim.now {
		sim.result.Requests.Sent++
		if a.ok {
			if a.flying = append(a.flying, a.arrival); len(a.flying) > 256 {
				sim.land(i)
			}
		} else {
			sim.fail(i, a.arrival)
			a.waiting = append(a.waiting, a.arrival)
		}
		sim.draw(i)
	}
	sim.land(i)
	k := 0
	for k < len(a.waiting) && a.waiting[k]+sim.Patience <= sim.now {
		k++
	}
	sim.result.Requests.Lost += k
	a.waiting = a.waiting[k:]
}

// fail notes a request that is not answered, by when it was sent or broke.
func (sim *simulation) fail(i int, at time.Duration) {
	if a := &sim.apps[i]; a.failed < 0 {
		a.failed = at
	}
}

// land counts the requests that have been answered by now.
func (sim *simulation) land(i int) {
	a := &sim.apps[i]
	if len(a.flying) == 0 {
		return
	}
	took := sim.Problem.Variant(a.target).Latency
	kept := a.flying[:0]
	for _, sent := range a.flying {
		if sent+took > sim.now {
			kept = append(kept, sent)
			continue
		}
		sim.result.Requests.Answered++
		sim.answered(i, sent+took)
	}
	a.flying = kept
}

// answered ends the outage that an application's clients see.
func (sim *simulation) answered(i int, at time.Duration) {
	if a := &sim.apps[i]; a.failed >= 0 && at > a.failed {
		sim.result.Outages = append(sim.result.Outages, Outage{Application: i, From: a.failed, Length: at - a.failed})
		a.failed = -1
	}
}

// settle follows a change of whether the target answers: what it was answering breaks and waits, or what
// waits is sent again.
func (sim *simulation) settle(i int) {
	sim.catchUp(i)
	a := &sim.apps[i]
	ok := sim.answers(a.target)
	if ok == a.ok {
		return
	}
	if a.ok = ok; ok {
		sim.result.Requests.Again += len(a.waiting)
		for range a.waiting {
			a.flying = append(a.flying, sim.now)
		}
		a.waiting = a.waiting[:0]
		return
	}
	if len(a.flying) > 0 {
		sim.fail(i, sim.now)
		sim.report(i, control.Broken)
	}
	a.waiting = append(a.waiting, a.flying...)
	a.flying = a.flying[:0]
	sim.watch(i)
}

// report reports a request that has failed on the target's host, whose process is gone.
func (sim *simulation) report(i int, kind control.Kind) {
	if s := sim.apps[i].target.Host; sim.Traffic && sim.hosts[s].down && sim.hosts[s].gone {
		sim.controller.Observe(control.Event{At: sim.now, Kind: kind, Replica: -1, Host: s, Began: sim.now})
	}
}

// watch puts the next request on the agenda, whose failure the controller hears of.
func (sim *simulation) watch(i int) {
	if a := &sim.apps[i]; sim.Traffic && !a.sends && !a.ok && a.target != failover.Nowhere {
		a.sends = true
		sim.simulator.Schedule(env.Item{At: max(a.arrival, sim.now), Kind: clientSends, Index: i})
	}
}

// send lets the request come that is on the agenda.
func (sim *simulation) send(i int) {
	a := &sim.apps[i]
	a.sends = false
	if sim.catchUp(i); !a.ok && a.target != failover.Nowhere {
		sim.report(i, control.Refused)
		sim.watch(i)
	}
}

// activate has the clients send to what is activated: at once where the host of the one before lives,
// behind whose address it is, else once they know of it.
func (sim *simulation) activate(to failover.Assignment) {
	a := &sim.apps[to.App]
	a.next, a.at = to, sim.now
	if a.target == failover.Nowhere || sim.hosts[a.target.Host].down {
		a.at += sim.Switch
		sim.simulator.Schedule(env.Item{At: a.at, Kind: clientsSwitch, Index: to.App})
		return
	}
	sim.switchTo(to.App)
}

// switchTo has the clients send to what was activated last. The one before answers
// what it has, if it can.
func (sim *simulation) switchTo(i int) {
	a := &sim.apps[i]
	if a.next == a.target || a.at > sim.now { // another has been activated since
		return
	}
	sim.catchUp(i)
	if n := len(a.flying); n > 0 {
		sim.result.Requests.Answered += n
		sim.answered(i, a.flying[0]+sim.Problem.Variant(a.target).Latency)
		a.flying = a.flying[:0]
	}
	a.target = a.next
	sim.settle(i)
}
