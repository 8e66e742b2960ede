package failover

import (
	"math/rand/v2"
	"time"

	"gearshift/env/agenda"
	"gearshift/router/control"
)

// application is the clients' side of one: where they send, and what they wait for.
type application struct {
	target  int // instance; −1: they know none
	ok      bool
	next    int // instance to which they switch
	at      time.Duration
	random  *rand.Rand
	arrival time.Duration   // of the next request
	flying  []time.Duration // when those were sent that are being answered
	waiting []time.Duration // when those were sent that nothing answers
	failed  time.Duration   // when the first request failed since the last answer; −1: none
	sends   bool            // the next request is on the agenda
}

// draw draws the next arrival.
func (w *world) draw(i int) {
	a := &w.apps[i]
	a.arrival += time.Duration(a.random.ExpFloat64() / w.System.Applications[i].Rate * float64(time.Second))
}

// catchUp lets the requests come that are sent until now, under what has held since the last call:
// what they are sent to answers, or does not.
func (w *world) catchUp(i int) {
	a := &w.apps[i]
	for a.arrival <= w.now {
		w.result.Requests.Sent++
		if a.ok {
			if a.flying = append(a.flying, a.arrival); len(a.flying) > 256 {
				w.land(i)
			}
		} else {
			w.fail(i, a.arrival)
			a.waiting = append(a.waiting, a.arrival)
		}
		w.draw(i)
	}
	w.land(i)
	k := 0
	for k < len(a.waiting) && a.waiting[k]+w.Patience <= w.now {
		k++
	}
	w.result.Requests.Lost += k
	a.waiting = a.waiting[k:]
}

// fail notes a request that is not answered, by when it was sent or broke.
func (w *world) fail(i int, at time.Duration) {
	if a := &w.apps[i]; a.failed < 0 {
		a.failed = at
	}
}

// land counts the requests that have been answered by now.
func (w *world) land(i int) {
	a := &w.apps[i]
	if len(a.flying) == 0 {
		return
	}
	took := w.latency(a.target)
	kept := a.flying[:0]
	for _, sent := range a.flying {
		if sent+took > w.now {
			kept = append(kept, sent)
			continue
		}
		w.result.Requests.Answered++
		w.answered(i, sent+took)
	}
	a.flying = kept
}

// answered ends the outage that an application's clients see.
func (w *world) answered(i int, at time.Duration) {
	if a := &w.apps[i]; a.failed >= 0 && at > a.failed {
		w.result.Outages = append(w.result.Outages, Outage{Application: i, From: a.failed, Length: at - a.failed})
		a.failed = -1
	}
}

// settle follows a change of whether the target answers: what it was answering breaks and waits, or what
// waits is sent again.
func (w *world) settle(i int) {
	w.catchUp(i)
	a := &w.apps[i]
	ok := w.answers(a.target)
	if ok == a.ok {
		return
	}
	if a.ok = ok; ok {
		w.result.Requests.Again += len(a.waiting)
		for range a.waiting {
			a.flying = append(a.flying, w.now)
		}
		a.waiting = a.waiting[:0]
		return
	}
	if len(a.flying) > 0 {
		w.fail(i, w.now)
		w.report(i, control.Broken)
	}
	a.waiting = append(a.waiting, a.flying...)
	a.flying = a.flying[:0]
	w.watch(i)
}

// report reports a request that has failed on the target's server, whose process is gone.
func (w *world) report(i int, kind control.Kind) {
	if s := w.serverOf(w.apps[i].target); w.Traffic && w.servers[s].down > 0 && !w.servers[s].silent {
		w.controller.Observe(control.Event{At: w.now, Kind: kind, Replica: -1, Host: s, Began: w.now})
	}
}

// watch puts the next request on the agenda, whose failure the controller hears of.
func (w *world) watch(i int) {
	if a := &w.apps[i]; w.Traffic && !a.sends && !a.ok && a.target >= 0 {
		a.sends = true
		w.agenda.Add(agenda.Item{At: max(a.arrival, w.now), Kind: clientSends, Index: i})
	}
}

// send lets the request come that is on the agenda.
func (w *world) send(i int) {
	a := &w.apps[i]
	a.sends = false
	if w.catchUp(i); !a.ok && a.target >= 0 {
		w.report(i, control.Refused)
		w.watch(i)
	}
}

// activate has the clients send to the instance: at once where the server of the one before lives,
// behind whose address it is, else once they know of it.
func (w *world) activate(i, instance int) {
	a := &w.apps[i]
	a.next, a.at = instance, w.now
	if a.target < 0 || w.servers[w.serverOf(a.target)].down > 0 {
		a.at += w.Switch
		w.agenda.Add(agenda.Item{At: a.at, Kind: clientsSwitch, Index: i})
		return
	}
	w.switchTo(i)
}

// switchTo has the clients send to the instance that was activated last. The one before answers
// what it has, if it can.
func (w *world) switchTo(i int) {
	a := &w.apps[i]
	if a.next == a.target || a.at > w.now { // another has been activated since
		return
	}
	w.catchUp(i)
	if n := len(a.flying); n > 0 {
		w.result.Requests.Answered += n
		w.answered(i, a.flying[0]+w.latency(a.target))
		a.flying = a.flying[:0]
	}
	a.target = a.next
	w.settle(i)
}
