package streams

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

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
	down     bool      // its first size is
	failed   []float64 // until when each size counts as failed
	up       []bool    // sizes that answer
	full     float64   // until when nobody more is served, since there was no room for all
	next     float64   // when it is planned again
	recent   batches
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
		x.up, x.failed = append(x.up, true), append(x.failed, 0)
	}
	x.calibrate(c.FPS)
	return x
}

// calibrate has plans count with the times that batches really take, and with the smaller sizes that answer.
func (h *host) calibrate(fps float64) {
	for i, s := range h.Sizes {
		if i > 0 && !h.up[i] {
			h.schedule.Smaller[i-1].Latency = nil
			continue
		}
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

// fail notes that a size counts as failed until then, and if it was silent all of them: their host may be cut off.
func (h *host) fail(model int, silent bool, until float64) {
	for i := range h.failed {
		if i == model || silent {
			h.failed[i] = until
		}
	}
}

// begin has a host run a batch.
func (m *Module) begin(h *host, frames []*offload.Frame, model int, late, now float64) {
	h.running = true
	h.recent.begin(begun{at: now, late: late, model: model, frames: len(frames)})
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
	h.recent.ended(took.Seconds() * m.FPS)
	var refused *proxy.BatchRefused
	switch failed := len(sent.Failed) > 0; {
	case failed || err != nil && !errors.As(err, &refused) && !errors.Is(err, proxy.ErrMemory):
		h.fail(b.model, took >= within, m.frames()+failureTime.Seconds()*m.FPS)
		m.Log.Warn("a host failed to answer frames", "host", h.Name, "variant", m.variantOf(h.Sizes[b.model].Replica), "frames", len(frames), "answered_elsewhere", err == nil)
	case err == nil:
		h.ran(b.model, len(frames), took)
	}
	if err == nil {
		m.server.Batches().Answered(m.Task, sent.Replica, len(frames), took)
	}
	name, ended := "", m.frames()
	if err == nil {
		name = m.Ledger.Table().Variants[m.Ledger.Table().Replicas[sent.Replica].Variant].Name
	}
	for i, f := range frames {
		x, p := sessionOf(f.Stream), b.frames[i]
		if err != nil {
			m.release(f, outcomeFailed)
			x.say(Down{Type: KindError, Code: "failed", Frame: p.number, Message: fmt.Sprintf("frame %d is not answered: %v", p.number, err)})
			continue
		}
		x.say(Down{
			Type: KindResult, Frame: p.number, Captured: p.captured, Model: name, Batch: len(frames),
			QueueMS: m.milliseconds(began - f.Arrived), InferenceMS: m.milliseconds(took.Seconds() * m.FPS), LateMS: m.milliseconds(max(0, late)), Outputs: b.rows[i],
		})
		x.results++
		x.sees(p.number, name, h.Sizes[b.model].Gap, late > 1, ended)
		m.release(f, outcomeAnswered)
	}
	m.buffers().Give(b.held)
}

// variantOf names the variant of a replica.
func (m *Module) variantOf(replica int) string {
	t := m.Ledger.Table()
	return t.Variants[t.Replicas[replica].Variant].Name
}

// milliseconds returns a time in frames in milliseconds, to a tenth.
func (m *Module) milliseconds(frames float64) float64 { return math.Round(frames/m.FPS*1e4) / 10 }
