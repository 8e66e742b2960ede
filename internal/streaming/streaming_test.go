package streaming

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/serving/streams"
	"gearshift/workloads/scenes"
)

// What clients lose is summed up by their seconds, and by clients.
func TestStreamsAreSummedUp(t *testing.T) {
	o := &Options{Duration: 12 * time.Second, Warmup: 2 * time.Second, SLA: 0.04, Scenes: true}
	a := &Measured{Drops: []float64{0.01, 0.05}, Loss: 3, Stride: 300, Ran: batchTimes{}, Queued: 40}
	a.Served, a.Results, a.Late, a.DropRate, a.Network, a.Host = 10*time.Second, 4, 1, 0.01, 40, "h1"
	a.Ran.add(2, 3, 90)
	a.Ran.add(4, 1, 50)
	b := &Measured{Drops: []float64{0.06, 0.08}, Loss: 1, Stride: 100, Failed: "a client's process: killed"}
	b.Served, b.Why = 5*time.Second, "no room"
	r := o.sum([]*Measured{a, b})
	d := r.Drop
	if math.Abs(r.Served-1.5) > 1e-9 || r.Late != 0.25 || r.Batch != 2.5 || r.Inference != 35 || r.Queue != 10 || r.Network != 40 || r.Estimated != 0.01 {
		t.Errorf("%+v", r)
	}
	if d.Seconds != 4 || math.Abs(d.Mean-0.05) > 1e-9 || d.Worst != 0.08 || d.Above != 0.75 || d.Clients != 1 || d.Rate != 0.01 {
		t.Errorf("%+v", d)
	}
	if r.Errors["a client's process: killed"] != 1 || r.Waiting["no room"] != 1 || r.Hosts["h1"] != 1 {
		t.Errorf("errors %v, waiting %v, hosts %v", r.Errors, r.Waiting, r.Hosts)
	}
	if slow := r.slow([]float64{10, 20, 30, 40}); math.Abs(slow-1.4) > 1e-9 {
		t.Errorf("batches take %v times as long; want 140 ms for 100", slow)
	}
}

// A report without results has no figures that look perfect.
func TestNothingIsNotPerfect(t *testing.T) {
	var b strings.Builder
	r := (&Options{Duration: time.Second, Scenes: true}).sum([]*Measured{{Failed: "connection refused"}})
	if err := r.Print(&b); err != nil || strings.Contains(b.String(), "0.0 ms") || strings.Contains(b.String(), "0.0%") || !strings.Contains(b.String(), "errors: connection refused: 1") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// A process that ends early says so, and one that ends well what its client has measured.
func TestClientsOfProcesses(t *testing.T) {
	if m := childMeasured(t.Context(), "/bin/sh", []string{"-c", "echo started >&2; echo no memory >&2; exit 3"}); !strings.Contains(m.Failed, "exit status 3: no memory") {
		t.Errorf("failed: %q", m.Failed)
	}
	if m := childMeasured(t.Context(), "/bin/sh", []string{"-c", "kill -9 $$"}); m.Failed != "a client's process: signal: killed" {
		t.Errorf("failed: %q", m.Failed)
	}
	want := &Measured{Drops: []float64{0.01}, Ran: batchTimes{}}
	want.Results, want.EndToEnd = 7, []time.Duration{time.Second}
	want.Ran.add(3, 2, 50)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	m := childMeasured(t.Context(), "/bin/sh", []string{"-c", "echo '" + string(text) + "'"})
	if m.Failed != "" || m.Results != 7 || m.Drops[0] != 0.01 || m.Ran[3].MS != 50 || m.EndToEnd[0] != time.Second {
		t.Errorf("%+v", m)
	}
}

// A scene tracks the boxes of results, and says what is wrong with those that have none.
func TestScenesTakeResults(t *testing.T) {
	s := newScene(1, 0, 0.006)
	if b := s.Frame(3); len(b) < 500 {
		t.Errorf("a frame of %d bytes", len(b))
	}
	outputs := make([]float32, scenes.Cells*scenes.Cells*scenes.Values)
	for i := range outputs {
		outputs[i] = -20
	}
	text, _ := json.Marshal(outputs)
	r := streams.Reference{First: 2, Every: 1}
	result := func(frame int, text string) *streams.Down {
		return &streams.Down{Frame: frame, Outputs: map[string]json.RawMessage{"logits": json.RawMessage(text)}}
	}
	if rate := s.Track(result(0, string(text)), 3, r); rate != 0.006 || s.err != nil {
		t.Errorf("rate %v, %v; want the one that it began with", rate, s.err)
	}
	if rate := s.Track(result(5, "[1, 2]"), 8, r); rate >= 0 || s.err == nil || !strings.Contains(s.err.Error(), `"logits" is not of boxes: it has 2 numbers`) {
		t.Errorf("rate %v, %v", rate, s.err)
	}
	s.Track(nil, 70, r)
	if len(s.Drops) != 1 || s.Drops[0] != 0 { // no boxes at any stride
		t.Errorf("drops %v of 67 frames; want one second", s.Drops)
	}
}

// The simulator serves as many clients as there are where two hosts have room, and fewer where they have none.
func TestStreamsAreSimulated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := `
tasks: [{name: boxes, total_ms: 1000, quality: {boxes: 0.9}}]
variants: [{name: boxes}]
hosts: [{name: h1, memory: 4GiB}, {name: h2, memory: 4GiB}]
replicas: [{variant: boxes, hosts: [h1, h2], memory: 30%}]
profiles: [{variant: boxes, batch_ms: {1: 30, 8: 100}, weight_bytes: 1_000_000}]
serving: {streams: {task: boxes}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	link, err := linkOf("lte")
	if err != nil {
		t.Fatal(err)
	}
	served := map[int]float64{}
	for _, n := range []int{3, 30} {
		s, err := newPrediction(path)
		if err != nil {
			t.Fatal(err)
		}
		o := &Options{Clients: n, Duration: 15 * time.Second, Warmup: 5 * time.Second, SLA: 0.04}
		if s, err = s.run(o, &Report{Estimated: 0.008, EstimatedSpread: 0.001, Network: 38}, link); err != nil {
			t.Fatal(err)
		}
		served[n] = s.Served
	}
	if math.Abs(served[3]-3) > 0.1 || served[30] < 6 || served[30] > 25 {
		t.Errorf("served %v of so many", served)
	}
}
