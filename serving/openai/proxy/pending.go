package proxy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errGone is the cause of an attempt's end when the replica's host is lost.
var errGone = errors.New("the replica's host is lost")

// failedLost is the reason for a retry that is no failure of the replica alone: its host is lost.
const failedLost failure = "lost"

// lostSilence is how long a replica whose host is lost may leave a client waiting for more of an
// answer that has begun. Only its end shows whether the loss was a false alarm.
const lostSilence = time.Second

// pending is the attempts at a replica. A host that is stopped or cut off breaks no
// connection: who waits there would wait until a timeout.
type pending struct {
	mu      sync.Mutex // protects all below
	waiting map[*answer]struct{}
	begun   map[*answer]struct{} // their clients have got something
	lost    bool
	ever    bool          // it has been lost
	last    time.Duration // when
	refuses bool          // nothing listens there
	out     chan struct{} // closed when it is lost or refuses; nil if nothing waits for that
}

// isOut reports whether the replica's host is lost, or nothing listens there.
func (p *pending) isOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost || p.refuses
}

// refuse notes that nothing listens where the replica was. What it has, it may still answer: a
// process that ends in order does. Of one that was killed the connections break by themselves.
func (p *pending) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = true
	p.show()
}

// show wakes those who wait to know. The caller holds p.mu.
func (p *pending) show() {
	if p.out != nil {
		close(p.out)
		p.out = nil
	}
}

// showsOut reports whether the replica is out within a while, if not yet.
func (p *pending) showsOut(ctx context.Context, while time.Duration) bool {
	p.mu.Lock()
	if p.lost || p.refuses {
		p.mu.Unlock()
		return true
	}
	if p.out == nil {
		p.out = make(chan struct{})
	}
	out := p.out
	p.mu.Unlock()
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-out:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// add takes in an attempt that was decided on at that time. It is ended at once if the replica's
// host was lost since.
func (p *pending) add(a *answer, decided time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting, p.begun = map[*answer]struct{}{}, map[*answer]struct{}{}
	}
	if p.ever && decided <= p.last && !a.carried {
		a.cancel(errGone)
	}
	p.waiting[a] = struct{}{}
}

// begin notes that the client is to get the answer from now on, so that no other may replace
// it. It reports false if the attempt was ended before.
func (p *pending) begin(a *answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, a)
	if a.gone() {
		return false
	}
	p.begun[a] = struct{}{}
	if p.lost {
		p.hurry(a)
	}
	return true
}

func (p *pending) remove(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, a)
	delete(p.begun, a)
}

// lose ends the attempts of which no client has seen anything, so that they are made elsewhere,
// and returns how many they are. Answers that have begun end once nothing more comes.
func (p *pending) lose(now time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ever, p.last = true, now
	p.show()
	tried := 0
	for a := range p.waiting {
		if !a.carried { // a gateway knows better whether the replica answers
			a.cancel(errGone)
			tried++
		}
	}
	if !p.lost {
		p.lost = true
		for a := range p.begun {
			p.hurry(a)
		}
	}
	return tried
}

func (p *pending) found() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost, p.refuses = false, false
}

// hurry ends the answer if nothing more of it comes in time, as long as the host is lost. The
// caller holds p.mu.
func (p *pending) hurry(a *answer) {
	if a.carried {
		return
	}
	reads := a.reads.Load()
	time.AfterFunc(lostSilence, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, ok := p.begun[a]; !ok || !p.lost {
			return
		}
		if reads%2 == 1 && a.reads.Load() == reads {
			a.cancel(errGone)
			return
		}
		p.hurry(a)
	})
}

// gone reports whether the attempt was ended because the replica's host is lost.
func (a *answer) gone() bool { return context.Cause(a.ctx) == errGone }
