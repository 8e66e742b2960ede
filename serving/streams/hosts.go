package streams

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/offload"
)

// leastWait keeps the loop from looking for what is due in next to no time.
const leastWait = 100 * time.Microsecond

// loop plans and begins batches while there are clients.
func (m *Module) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		m.mu.Lock()
		if len(m.connected) == 0 {
			m.running = false
			m.mu.Unlock()
			return
		}
		now := m.frames()
		again := now + m.Period.Seconds()*m.FPS
		m.reconsider(now)
		for _, h := range m.hosts {
			again = min(again, m.advance(h, now))
		}
		m.mu.Unlock()
		timer.Reset(max(leastWait, time.Duration((again-now)/m.FPS*float64(time.Second))))
		select {
		case <-m.wake:
		case <-timer.C:
		case <-m.server.Ending():
			m.dismiss()
			return
		}
	}
}

// dismiss sends all clients away.
func (m *Module) dismiss() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = false
	for x := range m.connected {
		x.say(Down{Type: KindError, Code: "shutting_down", Message: "the router is ending"})
		x.closing = statusEnding
	}
}

// reconsider ends to serve clients of which nothing comes, and gives those that wait the host with the most room.
func (m *Module) reconsider(now float64) {
	for _, h := range m.hosts {
		m.turned(h, now)
	}
	if m.considered > 0 && now < m.considered+m.Period.Seconds()*m.FPS {
		return
	}
	m.considered = now
	var best *host
	most := math.Inf(-1)
	for _, h := range m.hosts {
		if h.down {
			continue
		}
		if room := m.room(h); room > most {
			best, most = h, room
		}
	}
	for _, x := range m.sessions {
		if x.stream.Served && now-x.heard > silence.Seconds()*m.FPS {
			x.silent = true
			m.evict(x, now, fmt.Sprintf("no frame has come for %v", silence))
		}
		if x.stream.Served {
			continue
		}
		if best == nil {
			x.forget()
			x.host = -1
			x.waits("no host that answers frames is up")
		} else if x.host != best.index && !x.silent {
			x.forget()
			x.host, best.next = best.index, min(best.next, now)
		}
	}
}

// room is the part of a host that is free.
func (m *Module) room(h *host) float64 {
	room := 1.0
	for _, x := range m.sessions {
		if x.host == h.index && x.stream.Served {
			known := h.schedule.Known(&x.stream)
			share, _, _ := h.schedule.Share(&known)
			room -= min(share, 1)
		}
	}
	return room
}

// turned notes that a size of a host has failed, or is back. Without a smaller one the host is planned again; without the
// first, to which SLAs relate, its clients are to be served elsewhere, at once.
func (m *Module) turned(h *host, now float64) {
	changed := false
	for i, s := range h.Sizes {
		up := now >= h.failed[i] && m.Ledger.State(s.Replica) == fleet.Up
		changed = changed || up != h.up[i]
		h.up[i] = up
	}
	if !changed {
		return
	}
	h.next = min(h.next, now)
	if down := !h.up[0]; down != h.down {
		h.down, m.considered = down, 0
	}
	h.schedule.Forget()
	if !h.down {
		return
	}
	for _, x := range m.sessions {
		if x.host != h.index {
			continue
		}
		if x.stream.Served {
			m.evict(x, now, "host "+h.Name+" takes no frames any more")
			x.stream.Since = 0 // it need not rest
		}
		x.forget()
		x.host = -1
	}
	for _, o := range m.hosts {
		o.next, o.full = min(o.next, now), 0
	}
}

// evict ends to serve a client.
func (m *Module) evict(x *session, now float64, why string) {
	x.stream.Serve(false, now)
	m.counts.evicted++
	x.forget()
	x.waits(why)
}

// forget drops what the client was asked for.
func (x *session) forget() {
	if x.host >= 0 {
		x.module.hosts[x.host].schedule.Drop(&x.stream)
	}
	for _, f := range x.held {
		x.module.release(f, outcomeDropped)
	}
	x.held, x.asked = nil, nil
}

// waits has the client hear why it is not served, unless it knows.
func (x *session) waits(why string) {
	if x.why != why {
		x.why = why
		x.say(Down{Type: KindPlace, Why: why})
	}
}

// advance does what there is to do on a host, and returns when to look again.
func (m *Module) advance(h *host, now float64) (again float64) {
	if h.down {
		return math.Inf(1)
	}
	if now >= h.next {
		if h.running {
			h.schedule.Until = max(h.schedule.Until, now)
		}
		m.plan(h, now)
		h.next = now + m.Period.Seconds()*m.FPS
	}
	if h.running {
		return h.next
	}
	frames, model, late, again := h.schedule.Next(now)
	if len(frames) > 0 {
		m.begin(h, frames, model, late, now)
	}
	return min(again, h.next)
}

// plan plans a host, until nobody more can be served, and tells its clients.
func (m *Module) plan(h *host, now float64) {
	h.calibrate(m.FPS)
	var served, waiting []*session
	for _, x := range m.sessions {
		switch {
		case x.host != h.index || x.silent:
		case x.stream.Served:
			served = append(served, x)
		default:
			waiting = append(waiting, x)
		}
	}
	if now < h.full {
		waiting = nil
	}
	slices.SortStableFunc(waiting, func(a, b *session) int { return cmp.Compare(a.tried, b.tried) })
	for more := true; more; {
		n := min(len(waiting), offload.AtOnce)
		tried := waiting[:n]
		waiting = waiting[n:]
		more = m.admit(h, append(served, tried...), now) && len(waiting) > 0
		for _, x := range tried {
			if x.stream.Served {
				served = append(served, x)
			} else {
				x.tried = now
				x.waits("no host has room for it")
			}
		}
	}
	for _, x := range served {
		x.schedule(now)
	}
}

// admit plans a host again for these sessions, and reports whether any of them is served that was not.
func (m *Module) admit(h *host, sessions []*session, now float64) (more bool) {
	streams := make([]*offload.Stream, len(sessions))
	for i, x := range sessions {
		streams[i] = &x.stream
	}
	added, changed := h.schedule.Replan(streams, now, m.FPS)
	for _, c := range changed {
		x := sessionOf(c)
		if c.Served {
			more, x.why, x.heard = true, "", now
			x.say(Down{Type: KindPlace, Served: true, Host: h.Name})
		} else {
			m.counts.evicted++
			h.full = now + m.FPS
			x.waits("host " + h.Name + " has no room for it any more")
		}
	}
	for _, p := range added {
		for _, f := range p.Frames {
			x := sessionOf(f.Stream)
			x.asked, x.last = append(x.asked, f), max(x.last, f.Number)
		}
	}
	return more
}

// sessionOf returns the session of a stream.
func sessionOf(s *offload.Stream) *session { return s.Of.(*session) }

// schedule sends the client what it is asked for now. What it sent for a plan that was replaced is dropped.
func (x *session) schedule(now float64) {
	for _, f := range slices.Clone(x.held) {
		if f.Void {
			x.drop(f)
		}
	}
	recent := now - x.module.FPS
	x.asked = slices.DeleteFunc(x.asked, func(f *offload.Frame) bool { return f.Void || f.Start() < recent })
	if !x.stream.Served {
		return
	}
	d := Down{Type: KindSchedule}
	for _, f := range x.asked {
		if f.Start() <= now {
			continue
		}
		d.Frames = append(d.Frames, Due{f.Number, x.module.milliseconds(f.Start() - now)})
	}
	x.say(d)
}
