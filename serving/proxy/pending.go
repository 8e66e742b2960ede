package proxy

import (
	"errors"
	"sync"
)

// errGone is the cause of an attempt's end when the replica's host is gone.
var errGone = errors.New("nothing is there any more where the replica was")

// pending is the attempts at a replica of whose answers nothing has come yet. A host
// that vanishes says nothing: who waits there would wait until a timeout.
type pending struct {
	mu  sync.Mutex
	all map[*answer]struct{}
}

func (p *pending) add(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[*answer]struct{}{}
	}
	p.all[a] = struct{}{}
}

func (p *pending) remove(a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, a)
}

// abandon ends them, so that they are tried elsewhere, and returns how many they are.
func (p *pending) abandon() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.all {
		a.cancel(errGone)
	}
	return len(p.all)
}
