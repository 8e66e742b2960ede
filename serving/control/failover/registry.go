package failover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/engines"
	"gearshift/serving/engines/agents"
	"gearshift/serving/openai/wire"
)

// registry holds the agents of engines that have registered.
type registry struct {
	module *Module
	every  time.Duration // a heartbeat
	misses int

	mu sync.Mutex // protects what follows
	of []*agent   // by host of the table; nil where none has registered
	// terms holds the terms that this run gave the hosts' engines, by host; 0 where none has registered.
	// Troubles holds why the last orders to hosts failed; empty if they did not.
	terms    []uint64
	troubles []string
}

// agent is that of one engine.
type agent struct {
	agents.Registration
	since    time.Duration
	heard    time.Duration
	sequence uint64
	// presences counts the connections that it has kept open.
	presences int
	// Gap is the longest time between two heartbeats so far.
	gap time.Duration
}

func newRegistry(m *Module) registry {
	n := len(m.options.Table.Hosts)
	return registry{module: m, every: m.options.Controller.Heartbeat, misses: m.options.Controller.Misses, of: make([]*agent, n), terms: make([]uint64, n), troubles: make([]string, n)}
}

// maxBody bounds the bodies of agents.
const maxBody = 1 << 20

// read decodes the body of an agent's request.
func read(w http.ResponseWriter, r *http.Request, to any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// host returns the watched host that the request's path names. A router that stands by refuses the agent, which
// then looks for the acting router.
func (a *registry) host(w http.ResponseWriter, r *http.Request) (int, bool) {
	if a.module.standsBy(w, r) {
		return 0, false
	}
	name := r.PathValue("host")
	if h := a.module.hostNamed(name); h >= 0 {
		return h, true
	}
	serving.Fail(w, r, http.StatusNotFound, a.module.unknownHost(name))
	return 0, false
}

// register answers POST /admin/agents/HOST.
func (a *registry) register(w http.ResponseWriter, r *http.Request) {
	host, ok := a.host(w, r)
	if !ok {
		return
	}
	var x agents.Registration
	err := read(w, r, &x)
	if err == nil {
		err = x.Validate()
	}
	m := a.module
	name := m.options.Table.Hosts[host].Name
	if err != nil {
		m.log.Warn("an agent is refused", "host", name, "error", err)
		serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_registration", Message: "cannot register the agent of " + name + ": " + err.Error()})
		return
	}
	term, err := a.add(host, x)
	if err != nil {
		m.log.Warn("an agent is refused", "host", name, "error", err)
		serving.Fail(w, r, http.StatusConflict, wire.Error{Type: wire.InvalidRequest, Code: "host_taken", Message: "cannot register the agent of " + name + ": " + err.Error()})
		return
	}
	m.log.Info("an agent has registered", "host", name, "url", x.URL, "version", x.Version, "incarnation", x.Incarnation, "loaded", len(x.Loaded))
	if has := m.options.Table.Hosts[host].Memory; x.Memory > 0 && x.Memory < has {
		m.log.Warn("an engine may use less memory than the scenario says: loads may fail", "host", name, "memory", x.Memory, "scenario", has)
	}
	m.hear(host, x.Incarnation, x.Loaded)
	_ = serving.Answer(w, http.StatusOK, agents.Accepted{Term: term, HeartbeatMS: int(a.every / time.Millisecond), Misses: a.misses})
}

// add notes an agent, unless another one lives on the host, and returns the term that its engine gets.
func (a *registry) add(host int, x agents.Registration) (term uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.module.clock()
	if was := a.of[host]; was != nil && was.Incarnation != x.Incarnation && was.URL != x.URL && now-was.heard < a.patience() {
		return 0, fmt.Errorf("an agent at %s reports for it, %v ago last; end that one, or give this engine the name of another host", was.URL, (now - was.heard).Round(time.Millisecond))
	}
	a.of[host] = &agent{Registration: x, since: now, heard: now}
	if a.terms[host] == 0 || x.Term > a.terms[host] {
		a.terms[host] = a.above(host, x.Term)
	}
	return a.terms[host], nil
}

// forget makes agents register again, in the new term.
func (a *registry) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.of)
	clear(a.terms)
}

// above is the term of this run for an engine that has seen another: a newer one than that, whatever
// has become of this router's state file or clock.
func (a *registry) above(host int, seen uint64) uint64 {
	m := a.module
	term := m.term.Load()
	if seen < term || m.shared { // the store's terms rise, so a newer one is right
		return term
	}
	m.log.Warn("an engine has followed a router of a newer term: it gets a newer one still; was the state file lost, or does another router use this fleet?", "host", m.options.Table.Hosts[host].Name, "seen", seen, "term", term)
	return seen + 1
}

// stamp returns what orders to the replica's engine carry. Only an engine of this program, or one with an
// agent, is to know the fleet's token.
func (a *registry) stamp(replica int) (term uint64, secret string) {
	m := a.module
	host := m.options.Table.Replicas[replica].Host
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[host] != nil || m.engines.Driven(replica) == "gearshift" {
		secret = m.options.Token
	}
	return max(m.term.Load(), a.terms[host]), secret
}

// ended takes in how an order to the replica's engine has ended. If the engine follows another router,
// its agent is to register again, which has it follow this one.
func (a *registry) ended(replica int, err error) {
	m := a.module
	r := &m.options.Table.Replicas[replica]
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.troubles[r.Host] = ""; err == nil {
		return
	}
	a.troubles[r.Host] = r.Name + ": " + err.Error()
	var s *engines.Superseded
	if errors.As(err, &s) && a.of[r.Host] != nil {
		a.of[r.Host] = nil
		m.log.Warn("an engine follows another router; its agent is to register again", "host", m.options.Table.Hosts[r.Host].Name, "its_term", s.Term, "term", a.terms[r.Host])
	}
}

// patience is after how long an agent does not count as living any more.
func (a *registry) patience() time.Duration {
	return max(time.Second, 5*time.Duration(a.misses)*a.every)
}

// pulse answers POST /admin/agents/HOST/heartbeat.
func (a *registry) pulse(w http.ResponseWriter, r *http.Request) {
	host, ok := a.host(w, r)
	if !ok {
		return
	}
	var x agents.Pulse
	if err := read(w, r, &x); err != nil {
		serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_heartbeat", Message: "cannot read the heartbeat: " + err.Error()})
		return
	}
	m := a.module
	now := m.clock()
	known, newer := a.note(host, &x, now)
	switch {
	case !known:
		serving.Fail(w, r, http.StatusConflict, wire.Error{Type: wire.InvalidRequest, Code: "register_again", Message: fmt.Sprintf("this router knows no agent of incarnation %d on %s; register again", x.Incarnation, m.options.Table.Hosts[host].Name)})
		return
	case newer && x.Loaded != nil:
		m.hear(host, x.Incarnation, *x.Loaded)
	case newer:
		// One in time changes nothing: the controller sees it when it looks next.
		m.engines.Observe(control.Event{At: now, Kind: control.Heartbeat, Replica: -1, Host: host}, m.awaited(host))
	}
	w.WriteHeader(http.StatusNoContent)
}

// leave answers DELETE /admin/agents/HOST: the engine is about to end.
func (a *registry) leave(w http.ResponseWriter, r *http.Request) {
	host, ok := a.host(w, r)
	if !ok {
		return
	}
	var x agents.Pulse
	if err := read(w, r, &x); err != nil {
		serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_heartbeat", Message: "cannot read the goodbye: " + err.Error()})
		return
	}
	m := a.module
	now := m.clock()
	if known, _ := a.note(host, &x, now); known {
		a.mu.Lock()
		a.of[host] = nil
		a.mu.Unlock()
		m.log.Info("an agent takes leave", "host", m.options.Table.Hosts[host].Name)
		m.engines.Observe(control.Event{At: now, Kind: control.Refused, Replica: -1, Host: host, Began: now, Reason: "its engine has ended in order"}, true)
	}
	w.WriteHeader(http.StatusNoContent)
}

// note takes in a heartbeat. It reports whether its agent is registered, and whether it is newer
// than others.
func (a *registry) note(host int, x *agents.Pulse, now time.Duration) (known, newer bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.of[host]
	if of == nil || of.Incarnation != x.Incarnation {
		return false, false
	}
	if x.Sequence <= of.sequence {
		return true, false
	}
	of.gap = max(of.gap, now-of.heard)
	of.sequence, of.heard = x.Sequence, now
	if x.Loaded != nil {
		of.Loaded = *x.Loaded
	}
	return true, true
}

// awaited reports whether the host is lost, so that a heartbeat is news.
func (m *Module) awaited(host int) (lost bool) {
	m.engines.Look(func() { lost = m.controller.Out(host) })
	return lost
}

// hear takes in which models the host's engine has, by its own names.
func (m *Module) hear(host int, incarnation uint64, list []string) {
	m.engines.Do(func() {
		now := m.clock()
		m.controller.Heard(host, incarnation, func(r int) bool { return m.found(r, slices.Contains(list, m.engines.ModelOf(r)), now) }, now)
	})
}

// settling is for how long what an agent says may be older than the end of an action.
func (m *Module) settling() time.Duration { return 5 * m.options.Controller.Heartbeat }

// found brings a replica to what its engine says, and reports whether it is loaded.
func (m *Module) found(r int, there bool, now time.Duration) bool {
	placed := m.engines.Placed(r)
	ended := m.engines.LifecycleOf(r).Ended
	switch {
	case ended > 0 && now-ended < m.settling(): // it was sent before that
		return placed == fleet.Up
	case there:
		m.engines.Found(r, fleet.Up, now)
	case placed == fleet.Up:
		m.engines.Found(r, fleet.Cold, now)
	}
	return there
}
