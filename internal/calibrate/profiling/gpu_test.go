package profiling

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gearshift/env/fit"
	"gearshift/internal/scenario"
	"gearshift/router/profile"
)

// device makes up tables: models of known profiles that slow each other by a known law.
type device struct {
	names    []string
	profiles map[string]profile.Profile
	by       func(work, waiting float64) float64
	noise    float64
	random   *rand.Rand
	lines    []string
}

func newDevice(by func(work, waiting float64) float64, noise float64) *device {
	return &device{
		names: []string{"opt-125m", "opt-1.3b", "opt-6.7b"}, by: by, noise: noise, random: rand.New(rand.NewPCG(5, 1)),
		profiles: map[string]profile.Profile{
			"opt-125m": {Weights: 0.12, Growth: 0.004, Token: 0.0007, Context: 1.2e-5, Overhead: 0.05, Sequence: 0.001, WeightBytes: 250_000_000, KVBytes: 36_864},
			"opt-1.3b": {Weights: 1.1, Growth: 0.004, Token: 0.006, Context: 6.4e-5, Overhead: 0.05, Sequence: 0.001, WeightBytes: 2_630_000_000, KVBytes: 196_608},
			"opt-6.7b": {Weights: 5.4, Growth: 0.003, Token: 0.03, Context: 1.7e-4, Overhead: 0.06, Sequence: 0.001, WeightBytes: 13_300_000_000, KVBytes: 524_288},
		},
	}
}

func (d *device) add(row map[string]any) {
	line, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	d.lines = append(d.lines, string(line))
}

func (d *device) noisy(ms float64) float64 { return ms * math.Exp(d.noise*d.random.NormFloat64()) }

// engineIn is an engine in a loop over one load: the device's part and the rest of a step.
type engineIn struct {
	name         string
	device, rest float64
	host, step   float64 // the rest without pauses; the step with them
}

func (d *device) engine(name string, l GPULoad, duty float64) engineIn {
	p := d.profiles[name]
	gpu := p.GPU(max(l.Batch, l.Tokens), l.Batch*l.Context)
	rest := p.Overhead + float64(max(1, l.Batch))*p.Sequence
	return engineIn{name, gpu, rest + gpu*(1/duty-1), rest, rest + gpu/duty}
}

// settle has engines slow each other until nothing changes.
func (d *device) settle(engines []engineIn) {
	for range 300 {
		for i := range engines {
			work, waiting := 0., 0.
			for k, e := range engines {
				if k != i {
					work, waiting = work+e.device/e.step, waiting+(e.step-e.rest)/e.step
				}
			}
			e := &engines[i]
			e.step += 0.3 * (e.device*d.by(work, waiting) + e.rest - e.step)
		}
	}
}

func (d *device) measure(name string, l GPULoad, duty float64, busy GPULoad, others ...string) {
	engines := []engineIn{d.engine(name, l, 1)}
	for _, o := range others {
		engines = append(engines, d.engine(o, busy, duty))
	}
	d.settle(engines)
	for repeat := range 3 {
		row := map[string]any{"kind": "decode", "model": name, "batch": l.Batch, "context": l.Context, "graph": true, "repeat": repeat, "steps": 50}
		if l.Tokens > 0 {
			row["kind"], row["tokens"] = "prefill", l.Tokens
		}
		gpu := d.noisy(engines[0].step - engines[0].rest)
		row["gpu_ms"], row["step_ms"] = gpu, gpu+engines[0].rest
		var beside []map[string]any
		for _, e := range engines[1:] {
			beside = append(beside, map[string]any{
				"model": e.name, "batch": busy.Batch, "context": busy.Context, "asked_duty": duty, "steps_per_s": 1e3 / e.step,
				"step_ms": e.step - e.rest + e.host, "gpu_ms": e.device + 0.8*(e.step-e.rest-e.device), // a fifth of its wait came before it began
			})
		}
		if beside != nil {
			row["beside"] = beside
		}
		d.add(row)
	}
}

// table is what scripts/gpu would write of the device.
func (d *device) table(t *testing.T) *GPUTable {
	t.Helper()
	d.add(map[string]any{"kind": "machine", "version": 1, "date": "2026-01-02", "device": "cuda", "gpu": "made up", "graphs": true, "cores": 8, "dtype": "float16"})
	d.add(map[string]any{"kind": "memory", "gpu_memory_bytes": 80 << 30})
	for _, name := range d.names {
		p := d.profiles[name]
		d.add(map[string]any{"kind": "model", "model": name, "weight_bytes": p.WeightBytes, "kv_bytes_per_token": p.KVBytes})
	}
	busy := GPULoad{Batch: 8, Context: 512}
	for _, name := range d.names {
		for _, n := range []int{1, 2, 4, 8, 16, 32, 64} {
			for _, context := range []int{128, 512, 1024} {
				d.measure(name, GPULoad{Batch: n, Context: context}, 1, busy)
			}
		}
		for _, n := range []int{16, 64, 128, 256, 512, 1024, 2048} {
			d.measure(name, GPULoad{Tokens: n}, 1, busy)
		}
	}
	for i, name := range d.names {
		a, b := d.names[(i+1)%3], d.names[(i+2)%3]
		for _, duty := range []float64{1, 0.5} {
			for _, others := range [][]string{{a}, {b}, {a, b}} {
				for _, l := range []GPULoad{busy, {Tokens: 512}, {Batch: 1, Context: 128}, {Batch: 32, Context: 512}} {
					d.measure(name, l, duty, busy, others...)
				}
			}
		}
		d.add(map[string]any{"kind": "load", "model": name, "from": "disk", "cache": "direct", "bytes": d.profiles[name].WeightBytes / 2, "load_ms": 1000})
		d.add(map[string]any{"kind": "wake", "model": name, "pinned": true, "bytes": d.profiles[name].WeightBytes, "wake_ms": 500})
		d.add(map[string]any{"kind": "wake", "model": name, "pinned": true, "bytes": d.profiles[name].WeightBytes, "wake_ms": 300})
	}
	d.add(map[string]any{"kind": "end", "seconds": 200, "complete": true})
	table, err := ReadGPUTable(strings.NewReader(strings.Join(d.lines, "\n")+"\n"), "made-up.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func fitted(t *testing.T, d *device) *GPU {
	t.Helper()
	g, err := OfTable(d.table(t), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The law that a table was made with is named, γ is found, and so is what a step takes.
func TestATableTellsProfilesAndLaw(t *testing.T) {
	for _, c := range []struct {
		law   string
		gamma float64
		by    func(work, waiting float64) float64
	}{
		{fit.None, 0, func(float64, float64) float64 { return 1 }},
		{fit.Linear, 0.15, func(work, _ float64) float64 { return 1 + 0.15*work }},
		{fit.Linear, 0.8, func(work, _ float64) float64 { return 1 + 0.8*work }},
		{fit.Slicing, 1, func(_, waiting float64) float64 { return 1 + waiting }},
	} {
		for _, noise := range []float64{0, 0.02} {
			d := newDevice(c.by, noise)
			g := fitted(t, d)
			if g.Laws.Best().Name != c.law || !g.Laws.Fits() || g.Laws.Best().Median > 0.002+1.5*noise {
				t.Errorf("%s, noise %g: %s", c.law, noise, g.Verdict())
			}
			for _, f := range g.Fits {
				if math.Abs(f.Profile.Contention-c.gamma) > 0.01+noise {
					t.Errorf("%s, noise %g: %s has a contention of %g, want %g", c.law, noise, f.Model, f.Profile.Contention, c.gamma)
				}
				if (f.Profile.Crowding > 0) != (c.law == fit.Slicing) {
					t.Errorf("%s: a crowding of %g", c.law, f.Profile.Crowding)
				}
				if len(f.Faults) > 0 {
					t.Errorf("%s, noise %g: %s: %v", c.law, noise, f.Model, f.Faults)
				}
				for _, q := range f.Quality {
					if q.Median > 0.02+noise {
						t.Errorf("%s, noise %g: %s: %+v", c.law, noise, f.Model, q)
					}
				}
				known := d.profiles[f.Model]
				for key, pair := range map[string][2]float64{
					"weights": {f.Profile.Weights, known.Weights}, "token": {f.Profile.Token, known.Token}, "context": {f.Profile.Context, known.Context},
					"overhead": {f.Profile.Overhead, known.Overhead}, "sequence": {f.Profile.Sequence, known.Sequence},
				} {
					if math.Abs(pair[0]/pair[1]-1) > 0.02+4*noise {
						t.Errorf("%s, noise %g: %s: %s is %g, want %g", c.law, noise, f.Model, key, pair[0], pair[1])
					}
				}
			}
		}
	}
}

// Eager steps are compared with graphs, and are in no profile.
func TestEagerStepsAreApart(t *testing.T) {
	d := newDevice(func(float64, float64) float64 { return 1 }, 0)
	p := d.profiles["opt-125m"]
	ms, _ := p.Step(8, 8, 8*512, 0)
	table := d.table(t)
	table.Steps = append(table.Steps, GPUStep{Model: "opt-125m", GPULoad: GPULoad{Batch: 8, Context: 512}, MS: 3 * ms, DeviceMS: 2 * ms})
	g, err := OfTable(table, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := g.Fits[0]
	if math.Abs(f.EagerOverGraph-3) > 1e-6 || math.Abs(f.Profile.Weights/p.Weights-1) > 0.01 || g.Fits[1].EagerOverGraph != 0 {
		t.Errorf("eager %g and %g, weights %g", f.EagerOverGraph, g.Fits[1].EagerOverGraph, f.Profile.Weights)
	}
	if !strings.Contains(g.Summary(), "take 3.00 times as long") {
		t.Error(g.Summary())
	}
}

// The scenario is valid, has the measured profiles and the lender's qualities, and gives each
// KV cache as many tokens.
func TestTheScenarioOfATable(t *testing.T) {
	g := fitted(t, newDevice(func(_, waiting float64) float64 { return 1 + waiting }, 0))
	text, err := g.Scenario("made-up")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("made-up.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	base, err := scenario.Load(lender)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "made-up" || len(s.Tasks) != len(base.Tasks) || s.Tasks[0].Quality["opt-125m"] != base.Tasks[0].Quality["opt-125m"] {
		t.Errorf("%s: %+v", s.Name, s.Tasks)
	}
	theirs, _ := base.Models[2].Step(1, 1, usualContext, 0)
	ours, _ := g.Fits[2].Profile.Step(1, 1, usualContext, 0)
	if got, want := s.Tasks[0].DeadlineMS/ours, base.Tasks[0].DeadlineMS/theirs; math.Abs(got/want-1) > 0.01 {
		t.Errorf("a deadline of %g steps, want %g", got, want)
	}
	tokens := s.KVTokens()
	if tokens[0] < 1000 || math.Abs(float64(tokens[0])/float64(tokens[2])-1) > 0.01 {
		t.Errorf("KV tokens %v", tokens)
	}
	if math.Abs(s.Models[2].Weights/g.Fits[2].Profile.Weights-1) > 1e-4 || s.Models[2].Contention != 1 || s.Models[2].Crowding != turns {
		t.Errorf("%+v", s.Models[2])
	}
	// Half of the weights took a second.
	for _, want := range []string{"loads from disk in 2000 ms, wakes in 400 ms", "guess", "time slicing"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The profile's file can be put into a scenario, and says where it is from.
func TestTheProfileOfATable(t *testing.T) {
	table := newDevice(func(work, _ float64) float64 { return 1 + 0.5*work }, 0.01).table(t)
	g, err := OfTable(table, 30, 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := g.Text(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"variant: opt-6.7b", "contention: 0.", "# 90 %: 0.4", "contention_law: 1 + γ·duty", "made up", "table: made-up.jsonl", "fits: true", "whole_ms: 2000"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if again, err := OfTable(table, 30, 1); err != nil || fmt.Sprint(again.Fits[2].Intervals) != fmt.Sprint(g.Fits[2].Intervals) {
		t.Errorf("another fit of the same seed differs: %v", err)
	}
}

// What a cut table lacks is said, and the rest is fitted.
func TestACutTable(t *testing.T) {
	table := newDevice(func(float64, float64) float64 { return 1 }, 0).table(t)
	table.Cut = true
	table.Moves = nil
	kept := table.Steps[:0:0]
	for _, s := range table.Steps {
		if len(s.Beside) == 0 {
			kept = append(kept, s)
		}
	}
	table.Steps = kept
	g, err := OfTable(table, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var warned strings.Builder
	g.Warn(&warned)
	if g.Laws != nil || !strings.Contains(g.Verdict(), "0 loads beside busy neighbours") || !strings.Contains(warned.String(), "cut") || !strings.Contains(warned.String(), "contention") {
		t.Errorf("%s; %s", g.Verdict(), warned.String())
	}
	if text, err := g.Scenario("cut"); err != nil || !strings.Contains(string(text), "No law of contention") {
		t.Errorf("%v\n%s", err, text)
	}
	table.Steps = table.Steps[:4]
	if _, err := OfTable(table, 0, 1); err == nil || !strings.Contains(err.Error(), "made-up.jsonl: opt-125m: too few samples") {
		t.Errorf("error %v", err)
	}
}
