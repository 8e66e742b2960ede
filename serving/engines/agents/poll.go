package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// server is an engine that several replicas may share: it is asked once for all of them.
type server struct {
	engine   Engine
	dialect  Dialect
	replicas []int
	// level holds how deep it sleeps; 0 if it is not known. unfit names why it must not take requests though
	// it may say that it is awake; empty if it may. The actuator's lock protects both.
	level int
	unfit string
	// now has the server asked before its time.
	now chan struct{}
	// asked is closed once it was asked for the first time.
	asked chan struct{}
}

// serversOf groups the replicas that have a dialect.
func serversOf(replicas []Replica) []server {
	var list []server
	index := map[string]int{}
	for i, r := range replicas {
		if r.Dialect == nil {
			continue
		}
		n, ok := index[r.Server]
		if !ok || r.Server == "" {
			n = len(list)
			index[r.Server] = n
			list = append(list, server{engine: r.Engine, dialect: r.Dialect, now: make(chan struct{}, 1), asked: make(chan struct{})})
		}
		list[n].replicas = append(list[n].replicas, i)
	}
	return list
}

// Start begins to ask each engine for its states: at once, and then as often as the
// configuration says, until [Actuator.Stop].
func (a *Actuator) Start() {
	for i := range a.servers {
		a.work.Go(func() { a.follow(&a.servers[i]) })
	}
}

// follow asks one server until the end.
func (a *Actuator) follow(s *server) {
	var due <-chan time.Time // never, without an interval
	if a.options.Config.PollInterval > 0 {
		ticker := time.NewTicker(a.options.Config.PollInterval)
		defer ticker.Stop()
		due = ticker.C
	}
	a.poll(s)
	close(s.asked)
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-due:
		case <-s.now:
		}
		a.poll(s)
	}
}

// Asked returns once each engine was asked for its states, or the context has ended. It is called
// after [Actuator.Start].
func (a *Actuator) Asked(ctx context.Context) {
	for i := range a.servers {
		select {
		case <-a.servers[i].asked:
		case <-ctx.Done():
			return
		}
	}
}

// Poll has the replica's engine asked at once.
func (a *Actuator) Poll(replica int) {
	if s := a.serverOf(replica); s != nil {
		select {
		case s.now <- struct{}{}:
		default: // it will be
		}
	}
}

// serverOf returns the server that has the replica; nil if nothing drives it.
func (a *Actuator) serverOf(replica int) *server { return a.replicas[replica].server }

// Together lists for each replica the others that its engine puts to sleep and wakes with it; nil if
// there are none.
func (a *Actuator) Together() (others [][]int) {
	for i := range a.servers {
		s := &a.servers[i]
		if !s.together() || len(s.replicas) < 2 {
			continue
		}
		if others == nil {
			others = make([][]int, len(a.replicas))
		}
		for _, r := range s.replicas {
			others[r] = slices.DeleteFunc(slices.Clone(s.replicas), func(x int) bool { return x == r })
		}
	}
	return others
}

// together reports whether the server's models sleep and wake at once.
func (s *server) together() bool {
	d, ok := s.dialect.(together)
	return ok && d.Together()
}

// poll asks a server, and reports the replicas whose states are not what the router
// takes them for. What was asked before an action ended says nothing after it.
func (a *Actuator) poll(s *server) {
	replicas, models := a.named(s)
	before := a.turns(replicas)
	ctx, cancel := context.WithTimeout(a.ctx, a.options.Config.PollTimeout)
	readings, err := s.dialect.States(ctx, s.engine, models)
	cancel()
	if a.ctx.Err() != nil {
		return
	}
	a.options.Polled(s.replicas, err)
	if errors.Is(err, errGone) { // what comes back has its weights
		a.mu.Lock()
		s.unfit = ""
		a.mu.Unlock()
	}
	now := a.options.Clock()
	for n, i := range replicas {
		if err != nil {
			a.setNote(i, fmt.Sprintf("its state is not known: %v", err))
			continue
		}
		if a.takeIn(i, before[n], readings[n]) {
			a.options.Observe(control.Event{At: now, Kind: control.Changed, Replica: i, Host: a.options.Replicas[i].Host, State: readings[n].State, Reason: readings[n].Note})
		}
	}
}

// named returns the replicas of a server that have a model, with the names of these.
func (a *Actuator) named(s *server) (replicas []int, models []string) {
	for _, i := range s.replicas {
		if name := a.options.Replicas[i].model(); name != "" {
			replicas, models = append(replicas, i), append(models, name)
		}
	}
	return replicas, models
}

// turns are how often actions on the replicas began or ended.
func (a *Actuator) turns(replicas []int) []uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	turns := make([]uint64, len(replicas))
	for n, i := range replicas {
		_, turns[n] = a.activity(i)
	}
	return turns
}

// activity returns whether an action is under way that changes the replica's state, and how often one
// began or ended. The lock is held.
func (a *Actuator) activity(replica int) (busy bool, turns uint64) {
	list := []int{replica}
	if s := a.serverOf(replica); s.together() {
		list = s.replicas
	}
	for _, i := range list {
		busy = busy || a.replicas[i].busy
		turns += a.replicas[i].turns
	}
	return busy, turns
}

func (a *Actuator) setNote(replica int, note string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replicas[replica].note = note
}

// takeIn reports whether the reading is news.
func (a *Actuator) takeIn(replica int, turns uint64, r Reading) bool {
	placed := a.options.Placed(replica)
	a.mu.Lock()
	defer a.mu.Unlock()
	at := &a.replicas[replica]
	if busy, now := a.activity(replica); busy || now != turns {
		return false
	}
	at.note = r.Note
	s := a.serverOf(replica)
	if s.unfit != "" && r.State == fleet.Up {
		at.note = "the engine says that it is awake, and its last wake has failed: " + s.unfit
		return false
	}
	s.unfit = ""
	if r.State == placed {
		return false
	}
	select {
	case <-s.asked:
		s.level = 0 // the level of a sleep from outside is not known
	default: // an earlier run may have known it
	}
	return true
}

// oneOf lists the words as a choice.
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
