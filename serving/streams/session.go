package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gearshift/router/offload"
)

// session is a client's connection. What the module's mutex protects begins with stream.
type session struct {
	identity
	module *Module
	conn   connection
	idle   *time.Timer
	// finished is closed once a client that is sent away has been.
	finished chan struct{}

	stream     offload.Stream
	said       bool // hello
	gone       bool
	why        string           // it is not served
	heard      float64          // when it sent its last frame, or began to be served
	asked      []*offload.Frame // that it is to send
	held       []*offload.Frame // that have arrived, and are not in a batch yet
	newest     int              // frame that has come
	last       int              // frame that it was asked for
	complained map[string]float64
	window     float64 // the second of which messages and frames are counted
	messages   int
	frames     int
	received   int // frames in all
	results    int
	seen       seen

	out     []Down // what is to be sent
	number  int    // of the last of it
	writing bool
	closing status // once out is sent; 0: it is not
}

// The bounds on what clients do.
const (
	usualNetwork  = 20 * time.Millisecond // of clients that state none
	silence       = 2 * time.Second       // without a frame until a client is not served any more
	complaintTime = time.Second           // between two errors of a kind
	writeTime     = 10 * time.Second      // for what a client is sent
	mostMessages  = 20                    // in a second, pings included, beside frames
	mostSent      = 4                     // times the frames that a client has in a second
	mostOut       = 256                   // messages that wait for a client to read
	ahead         = 100 * time.Millisecond
	behind        = 500 * time.Millisecond
	firstReading  = 4 << 10
)

// run takes in what the client says until it goes or is sent away.
func (x *session) run(conn connection) {
	m := x.module
	x.conn = conn
	x.idle = time.AfterFunc(m.Idle, func() {
		x.end(statusWrong, "idle", fmt.Sprintf("nothing has come for %v (serving.streams.idle)", m.Idle))
	})
	m.enter(x)
	defer m.leave(x)
	defer x.idle.Stop()
	conn.listen(x.take)
}

// end sends the client away.
func (x *session) end(s status, code, message string) {
	x.module.mu.Lock()
	defer x.module.mu.Unlock()
	x.say(Down{Type: KindError, Code: code, Message: message})
	x.closing = s
}

// say has a message sent. The module's mutex is held.
func (x *session) say(d Down) {
	if x.gone || x.closing != 0 {
		return
	}
	x.number++
	d.Number = x.number
	if d.Type == KindSchedule { // which replaces one that was not sent yet
		x.out = slices.DeleteFunc(x.out, func(o Down) bool { return o.Type == KindSchedule })
	}
	if x.out = append(x.out, d); len(x.out) > mostOut {
		x.gone, x.out = true, nil // it does not read
		go x.conn.abort()
		return
	}
	if !x.writing {
		x.writing = true
		go x.write()
	}
}

// complain says what is wrong with a frame, not more often than it helps. The module's mutex is held.
func (x *session) complain(code string, frame int, format string, args ...any) {
	x.module.counts.frames[outcomeRefused]++
	now := x.module.frames()
	if at, ok := x.complained[code]; ok && now-at < complaintTime.Seconds()*x.module.FPS {
		return
	}
	if x.complained == nil {
		x.complained = map[string]float64{}
	}
	x.complained[code] = now
	x.say(Down{Type: KindError, Code: code, Frame: frame, Message: fmt.Sprintf(format, args...)})
}

// write sends what is to be sent.
func (x *session) write() {
	m := x.module
	for {
		m.mu.Lock()
		list, closing := x.out, x.closing
		x.out, x.writing = nil, len(list) > 0
		m.mu.Unlock()
		for i := range list {
			text, err := json.Marshal(&list[i])
			if err == nil {
				ctx, cancel := context.WithTimeout(context.Background(), writeTime)
				err = x.conn.send(ctx, &list[i], text)
				cancel()
			}
			if err != nil {
				x.conn.abort() // its reader ends
				return
			}
		}
		if len(list) == 0 {
			if closing != 0 {
				x.conn.close(closing)
				close(x.finished)
			}
			return
		}
	}
}

// enter notes a connection, and has the loop run.
func (m *Module) enter(x *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connected[x] = true
	m.counts.sessions++
	x.id = m.counts.sessions
	if !m.running {
		m.running = true
		go m.loop()
	}
}

// leave forgets a connection. All that it held is given back.
func (m *Module) leave(x *session) {
	m.mu.Lock()
	x.gone, x.out = true, nil
	delete(m.connected, x)
	m.fleet.Remove(&x.stream, m.frames())
	m.mu.Unlock()
	x.conn.abort()
	m.poke()
}

// hear takes in what the client says.
func (m *Module) hear(x *session, text []byte) error {
	var u Up
	if err := u.read(text); err != nil {
		return &fault{statusWrong, "invalid_message", err.Error()}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x.stream.Silent = false
	if u.Type == KindHello {
		return m.hello(x, &u)
	}
	if !x.said {
		return &fault{statusWrong, "invalid_message", errFirst.Error()}
	}
	x.measured(&u)
	return nil
}

// measured takes in what the client has measured.
func (x *session) measured(u *Up) {
	if u.DropRate > 0 {
		x.stream.Rate = u.DropRate
	}
	if u.NetworkMS > 0 {
		x.stream.Network = u.NetworkMS * x.module.FPS / 1000
	}
}

// hello has a client wait for a place, or begin to count its frames again.
func (m *Module) hello(x *session, u *Up) error {
	task := m.Ledger.Table().Tasks[m.Task].Name
	wrong := func(format string, args ...any) error {
		return &fault{statusWrong, "invalid_message", fmt.Sprintf(format, args...)}
	}
	if u.Task != "" && u.Task != task {
		return wrong("task: %q has no streams; want %s", u.Task, task)
	}
	if u.FPS != 0 && u.FPS != m.FPS {
		return wrong("fps: %v; streams here have %v frames in a second", u.FPS, m.FPS)
	}
	now := m.frames()
	if !x.said {
		x.said = true
		x.stream = offload.Stream{Rate: m.DropRate, Network: usualNetwork.Seconds() * m.FPS, Of: x}
		m.fleet.Add(&x.stream)
		x.why = "it waits for the next plan"
		x.say(Down{Type: KindPlace, Why: x.why})
	}
	x.measured(u)
	x.stream.SLA, x.stream.Arrivals = u.SLA, offload.Arrivals{}
	x.stream.Phase = now - u.AgeMS*m.FPS/1000 - float64(u.Frame) - x.stream.Network/2
	x.newest = u.Frame - 1
	x.heard = now
	m.fleet.Hurry()
	m.poke()
	return nil
}

// frame takes in a frame. The reader of its session calls it, and decodes it there if it was asked for.
func (m *Module) frame(x *session, b []byte) {
	number, captured, picture, err := readHeader(b)
	p := &payload{number: number, captured: captured, jpeg: picture, held: int64(cap(b))}
	var f *offload.Frame
	var host *offload.ScheduledHost
	if err == nil {
		if f, host = m.due(x, number); f == nil {
			m.buffers().Give(p.held)
			return
		}
		err = p.decode(&m.Input, m.buffers())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		x.complain("invalid_frame", number, "%v", err)
		m.buffers().Give(p.held)
	case x.gone || f.Void || x.stream.Host != host: // meanwhile
		f.Of = p
		m.release(f, outcomeDropped)
	default:
		f.Of = p
		x.held = append(x.held, f)
		if host.Arrive(f, m.frames()) && m.Policy != offload.Gearshift {
			x.drop(f)
		}
		m.poke()
	}
}

// due returns the frame of the schedule that a frame is which comes now, and the host that it is for; nil if it is none.
func (m *Module) due(x *session, number int) (f *offload.Frame, host *offload.ScheduledHost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expected(x, number), x.stream.Host
}

// expected returns the frame of the schedule that a frame is which comes now; nil if there is none. A client that has a
// newer one than it was asked for may send that.
func (m *Module) expected(x *session, number int) *offload.Frame {
	x.received++
	if x.stream.Host == nil {
		x.complain("not_served", number, "frame %d of a client that is not served; want none until its place says so", number)
		return nil
	}
	now := m.frames()
	off := now - float64(number) - x.stream.Phase - x.stream.Network/2
	switch {
	case number <= x.newest:
		x.complain("stale_frame", number, "frame %d after frame %d; the newest counts", number, x.newest)
		return nil
	case off < -ahead.Seconds()*m.FPS:
		x.complain("early_frame", number, "frame %d is of the future; the newest can be %d", number, x.stream.Newest(now))
		return nil
	case off > behind.Seconds()*m.FPS:
		x.complain("late_frame", number, "frame %d comes when %d is due; say hello again if frames were left out", number, x.stream.Newest(now))
		return nil
	}
	x.newest, x.heard = number, now
	x.stream.Phase += (off) / 64 // clocks drift
	x.asked = slices.DeleteFunc(x.asked, func(f *offload.Frame) bool { return f.Void })
	for i, f := range slices.Backward(x.asked) {
		if f.Number <= number {
			x.asked = x.asked[i+1:]
			f.Number = number
			return f
		}
	}
	if number > x.last {
		x.complain("unscheduled_frame", number, "frame %d was not asked for; want those of the schedule", number)
	} else {
		m.counts.frames[outcomeDropped]++ // its schedule was replaced on the way
	}
	return nil
}

// drop forgets a frame that has arrived.
func (x *session) drop(f *offload.Frame) {
	x.held = slices.DeleteFunc(x.held, func(o *offload.Frame) bool { return o == f })
	x.module.release(f, outcomeDropped)
}

// release gives back what a frame held, of which that is the end.
func (m *Module) release(f *offload.Frame, outcome string) {
	if p, ok := f.Of.(*payload); ok {
		m.buffers().Give(p.held)
		m.counts.frames[outcome]++
	}
	f.Of = nil
}
