package streams

import (
	"fmt"
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
		for _, h := range m.fleet.Hosts {
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

// reconsider notes which sizes have failed, ends to serve clients of which nothing comes, and gives those that wait a host.
func (m *Module) reconsider(now float64) {
	for _, h := range m.fleet.Hosts {
		x := h.Of.(*host)
		for i, s := range x.Sizes {
			m.fleet.Turn(h, i, now >= x.failed[i] && m.Ledger.State(s.Replica) == fleet.Up, now)
		}
	}
	if now >= m.looked+m.Period.Seconds()*m.FPS {
		m.looked = now
		for _, s := range m.fleet.Streams {
			if s.Served && now-sessionOf(s).heard > silence.Seconds()*m.FPS {
				s.Silent = true
				m.fleet.Evict(s, now, fmt.Sprintf("no frame has come for %v", silence))
			}
		}
	}
	m.fleet.Assign(now)
}

// advance does what there is to do on a host, and returns when to look again.
func (m *Module) advance(h *offload.ScheduledHost, now float64) (again float64) {
	frames, model, late, again := m.fleet.Advance(h, now)
	if len(frames) > 0 {
		m.begin(h, frames, model, late, now)
	}
	return again
}

// driver has sessions hear what the fleet decides. It implements [offload.Driver].
type driver struct{ *Module }

// Placed implements [offload.Driver].
func (m driver) Placed(s *offload.Stream) {
	x := sessionOf(s)
	if !s.Served {
		m.counts.evicted++
		return
	}
	x.why, x.heard = "", m.frames()
	x.say(Down{Type: KindPlace, Served: true, Host: s.Host.Name, AloneMS: m.milliseconds(s.Host.Schedule.Latency[0])})
}

// Waits implements [offload.Driver].
func (driver) Waits(s *offload.Stream, why string) {
	if x := sessionOf(s); x.why != why {
		x.why = why
		x.say(Down{Type: KindPlace, Why: why})
	}
}

// Forget implements [offload.Driver].
func (driver) Forget(s *offload.Stream) {
	x := sessionOf(s)
	for _, f := range x.held {
		x.module.release(f, outcomeDropped)
	}
	x.held, x.asked = nil, nil
}

// Ask implements [offload.Driver].
func (driver) Ask(f *offload.Frame) {
	x := sessionOf(f.Stream)
	x.asked, x.last = append(x.asked, f), max(x.last, f.Number)
}

// Planned implements [offload.Driver].
func (m driver) Planned(s *offload.Stream) { sessionOf(s).schedule(m.frames()) }

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
