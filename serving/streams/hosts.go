package streams

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coder/websocket"

	"gearshift/router/fleet"
	"gearshift/router/offload"
	"gearshift/serving/openai/proxy"
)

// host is one with its schedule. The module's mutex protects it.
type host struct {
	*Host
	index    int
	schedule offload.Schedule
	most     int       // frames in a batch, of whatever size
	slow     []float64 // how many times as long as by the profile batches take, by size
	running  bool      // a batch
	down     bool
	failed   float64 // until when it counts as failed
	full     float64 // until when nobody more is served, since there was no room for all
	next     float64 // when it is planned again
}

func newHost(c *Config, h *Host, index int) *host {
	x := &host{Host: h, index: index, schedule: offload.Schedule{Margin: c.Margin, Horizon: c.Horizon.Seconds() * c.FPS}}
	x.schedule.Policy, x.schedule.Grace, x.schedule.Longest = c.Policy, c.Grace, int(c.FPS)
	for _, s := range h.Sizes[1:] {
		x.schedule.Smaller = append(x.schedule.Smaller, offload.Size{Gap: s.Gap})
	}
	x.most = len(h.Sizes[0].Latency)
	for _, s := range h.Sizes {
		x.slow, x.most = append(x.slow, 1), min(x.most, len(s.Latency))
	}
	x.calibrate(c.FPS)
	return x
}

// calibrate has plans count with the times that batches really take.
func (h *host) calibrate(fps float64) {
	for i, s := range h.Sizes {
		list := make([]float64, h.most)
		for n, ms := range s.Latency[:h.most] {
			list[n] = ms * h.slow[i] * fps / 1000
		}
		if i == 0 {
			h.schedule.Latency = list
		} else {
			h.schedule.Smaller[i-1].Latency = list
		}
	}
}

// The bounds of how slow a host is taken for, and how much one batch says of it: more if it took longer than expected,
// since a batch that does delays those after it, but no single one takes room from many clients.
const (
	slowest, fastest         = 4, 0.5
	slowerWeight, fastWeight = 1.0 / 32, 1.0 / 64
	outlier                  = 1.3 // times as long as expected
)

// ran takes in how long a batch has really taken.
func (h *host) ran(model, n int, took time.Duration) {
	ratio := took.Seconds() * 1000 / h.Sizes[model].Latency[n-1]
	off := min(max(ratio, fastest), slowest, outlier*h.slow[model]) - h.slow[model]
	if off > 0 {
		h.slow[model] += slowerWeight * off
	} else {
		h.slow[model] += fastWeight * off
	}
}

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
		x.closing = websocket.StatusGoingAway
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

// turned notes that a host has failed, or is back. Its clients are to be served elsewhere, at once.
func (m *Module) turned(h *host, now float64) {
	down := now < h.failed || slices.ContainsFunc(h.Sizes, func(s Size) bool { return m.Ledger.State(s.Replica) != fleet.Up })
	if down == h.down {
		return
	}
	h.down, m.considered = down, 0
	if !down {
		h.next = now
		return
	}
	h.schedule.Forget()
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
		o.next = min(o.next, now)
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

// atOnce is how many of the clients that wait a plan looks at.
const atOnce = 4

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
		n := min(len(waiting), atOnce)
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

// admit plans a host anew for these sessions, and reports whether any of them is served that was not.
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
		d.Frames = append(d.Frames, Due{f.Number, math.Round((f.Start()-now)/x.module.FPS*1e4) / 10})
	}
	x.say(d)
}

// begin has a host run a batch.
func (m *Module) begin(h *host, frames []*offload.Frame, model int, late, now float64) {
	h.running = true
	m.counts.batches[h.index]++
	if late > 1 {
		m.counts.late[h.index]++
	}
	b := &batch{host: h, model: model}
	for _, f := range frames {
		x := sessionOf(f.Stream)
		x.held = slices.DeleteFunc(x.held, func(o *offload.Frame) bool { return o == f })
		b.frames = append(b.frames, f.Of.(*payload))
	}
	takes := h.schedule.Took(model, len(frames)) / m.FPS
	h.schedule.Until = now + takes*m.FPS
	within := max(leastBatch, time.Duration(overdue*takes*float64(time.Second)))
	go m.run(b, frames, now, late, within)
}

// A host whose batch takes this many times as long as planned, and at least so long, counts as failed, for a while.
const (
	overdue     = 5
	leastBatch  = 500 * time.Millisecond
	failureTime = time.Second
)

// run has a batch answered, and hands out the results.
func (m *Module) run(b *batch, frames []*offload.Frame, began, late float64, within time.Duration) {
	h, clock := b.host, m.server.Clock()
	start := clock()
	sent, err := m.send(b, within)
	took := clock() - start
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.poke()
	h.running = false
	var refused *proxy.BatchRefused
	switch failed := len(sent.Failed) > 0; {
	case failed || err != nil && !errors.As(err, &refused) && !errors.Is(err, proxy.ErrMemory):
		h.failed = m.frames() + failureTime.Seconds()*m.FPS
		m.Log.Warn("a host failed to answer frames", "host", h.Name, "frames", len(frames), "answered_elsewhere", err == nil)
	case err == nil:
		h.ran(b.model, len(frames), took)
	}
	if err == nil {
		m.server.Batches().Answered(m.Task, sent.Replica, len(frames), took)
	}
	ms := took.Seconds() * 1000
	for i, f := range frames {
		x, p := sessionOf(f.Stream), b.frames[i]
		if err != nil {
			m.release(f, outcomeFailed)
			x.say(Down{Type: KindError, Code: "failed", Frame: p.number, Message: fmt.Sprintf("frame %d is not answered: %v", p.number, err)})
			continue
		}
		x.say(Down{
			Type: KindResult, Frame: p.number, Captured: p.captured, Model: m.Ledger.Table().Variants[m.Ledger.Table().Replicas[sent.Replica].Variant].Name, Batch: len(frames),
			QueueMS: math.Round((began-f.Arrived)/m.FPS*1e4) / 10, InferenceMS: math.Round(ms*10) / 10, LateMS: math.Round(max(0, late)/m.FPS*1e4) / 10, Outputs: b.rows[i],
		})
		x.results++
		m.release(f, outcomeAnswered)
	}
	m.buffers().Give(b.held)
}
