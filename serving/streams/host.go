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

// host is one that serves, with what the module knows of it beside its schedule. The module's mutex protects it.
type host struct {
	*Host
	index  int
	failed []float64 // until when each size counts as failed
	recent batches
}

// quiet sets how long no frame may have waited for another batch until [offload.Alpha] adds a client (ARISE-19).
const quiet = 400 * time.Millisecond

func newHost(c *Config, h *Host, index int) *offload.ScheduledHost {
	s := offload.Schedule{Margin: c.Margin, Weight: offload.Learning, Horizon: c.Horizon.Seconds() * c.FPS}
	s.Policy, s.Grace, s.Longest = c.Policy, c.Grace, int(c.FPS)
	if s.Verified, s.Quiet = c.Verified, quiet.Seconds()*c.FPS; c.Policy == offload.Alpha {
		s.Grace = 0 // no batch waits
	}
	var latency [][]float64
	var gaps []float64
	for i, size := range h.Sizes {
		if latency = append(latency, offload.InFrames(size.Latency, c.FPS)); i > 0 {
			gaps = append(gaps, size.Gap)
		}
	}
	x := offload.NewScheduledHost(h.Name, s, latency, gaps...)
	x.Of = &host{Host: h, index: index, failed: make([]float64, len(h.Sizes))}
	return x
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
func (m *Module) begin(h *offload.ScheduledHost, frames []*offload.Frame, model int, late, now float64) {
	h.Running = true
	x := h.Of.(*host)
	x.recent.begin(begun{at: now, late: late, model: model, frames: len(frames)})
	m.counts.batches[x.index]++
	if late > 1 {
		m.counts.late[x.index]++
	}
	b := &batch{host: h, model: model}
	for _, f := range frames {
		x := sessionOf(f.Stream)
		x.held = slices.DeleteFunc(x.held, func(o *offload.Frame) bool { return o == f })
		b.frames = append(b.frames, f.Of.(*payload))
	}
	takes := h.Took(model, len(frames)) / m.FPS
	h.Until = now + takes*m.FPS
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
	h.Running = false
	h.Of.(*host).recent.ended(took.Seconds() * m.FPS)
	var refused *proxy.BatchRefused
	switch failed := len(sent.Failed) > 0; {
	case failed || err != nil && !errors.As(err, &refused) && !errors.Is(err, proxy.ErrMemory):
		x := h.Of.(*host)
		x.fail(b.model, took >= within, m.frames()+failureTime.Seconds()*m.FPS)
		m.Log.Warn("a host failed to answer frames", "host", h.Name, "variant", m.variantOf(x.Sizes[b.model].Replica), "frames", len(frames), "answered_elsewhere", err == nil)
	case err == nil:
		h.Ran(b.model, len(frames), took.Seconds()*m.FPS)
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
		x.stream.Answered()
		x.sees(p.number, name, h.Of.(*host).Sizes[b.model].Gap, late > 1, ended)
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
