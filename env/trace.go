package env

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
)

// Trace writes a simulation in Chrome's trace event format (load it in
// chrome://tracing or ui.perfetto.dev): hosts are processes, replicas threads,
// engine steps slices, and requests in flight a counter. Close ends the file.
type Trace struct {
	w     io.Writer
	table *fleet.Table
	wrote bool
	err   error
}

// NewTrace begins a trace of a simulation of this fleet.
func NewTrace(w io.Writer, t *fleet.Table) *Trace { return &Trace{w: w, table: t} }

// traceEvent is one entry of the format; times are in microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	At    float64        `json:"ts"`
	Dur   float64        `json:"dur,omitempty"`
	Pid   int            `json:"pid"`
	Tid   int            `json:"tid"`
	Args  map[string]any `json:"args,omitempty"`
}

// Attach records every step of the simulator from now on.
func (t *Trace) Attach(s *Simulator) {
	for h := range t.table.Hosts {
		t.name("process_name", h, 0, t.table.Hosts[h].Name)
		for i, r := range t.table.ReplicasOn(h) {
			t.name("thread_name", h, i, t.table.Replicas[r].Name)
		}
		s.Host(h).Observe = func(step engine.Step) { t.step(h, step, s.InFlight()) }
	}
}

func (t *Trace) name(kind string, pid, tid int, name string) {
	t.put(traceEvent{Name: kind, Phase: "M", Pid: pid, Tid: tid, Args: map[string]any{"name": name}})
}

func (t *Trace) step(host int, s engine.Step, inFlight int) {
	name := "decode"
	if s.Joining > 0 || s.Tokens > s.Decoding {
		name = "prefill"
		if s.Decoding > 0 {
			name = "prefill+decode"
		}
	}
	t.put(traceEvent{
		Name: name, Phase: "X", At: microseconds(s.Start), Dur: microseconds(s.End - s.Start), Pid: host, Tid: s.Engine,
		Args: map[string]any{"decoding": s.Decoding, "joining": s.Joining, "tokens": s.Tokens},
	})
	t.put(traceEvent{Name: "in flight", Phase: "C", At: microseconds(s.Start), Args: map[string]any{"requests": inFlight}})
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (t *Trace) put(e traceEvent) {
	if t.err != nil {
		return
	}
	separator := ",\n"
	if !t.wrote {
		separator = "[\n"
	}
	t.wrote = true
	b, err := json.Marshal(e)
	if err == nil {
		_, err = fmt.Fprintf(t.w, "%s%s", separator, b)
	}
	t.err = err
}

// Close ends the list and returns the first error of all writes.
func (t *Trace) Close() error {
	if t.err == nil {
		end := "\n]\n"
		if !t.wrote {
			end = "[]\n"
		}
		_, t.err = io.WriteString(t.w, end)
	}
	if t.err != nil {
		return fmt.Errorf("cannot write trace: %w", t.err)
	}
	return nil
}
