package profiling

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/env/engine"
	"gearshift/env/fit"
	"gearshift/env/fit/steady"
	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/scenario"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// measuredOf measures a variant of a scenario beside others, in no time.
func measuredOf(t *testing.T, ref, model string, neighbours ...string) (*Profile, *loadgen.Measurement, *scenario.Scenario) {
	t.Helper()
	s, err := scenario.Load(ref)
	if err != nil {
		t.Fatal(err)
	}
	known := modelOf(s, model)
	o := Options{Variant: model, WeightBytes: known.WeightBytes, ActivationBytes: known.ActivationBytes, KVBytes: known.KVBytes, Resamples: 100}
	var p *Profile
	var m *loadgen.Measurement
	synctest.Test(t, func(t *testing.T) {
		engines := enginetest.New(t, s)
		defer engines.Close()
		c := loadgen.Config{
			Target: loadgen.Target{URL: "http://127.0.0.1", Model: model}, Transport: engines,
			Batches: []int{1, 4, 16}, Prompts: []int{16, 64, 256, 512}, Output: 16, Time: time.Minute,
		}
		for _, n := range neighbours {
			c.Neighbours = append(c.Neighbours, loadgen.Target{URL: "http://127.0.0.1", Model: n})
		}
		if m, err = loadgen.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	})
	if p, err = Of(m, o); err != nil {
		t.Fatal(err)
	}
	return p, m, s
}

// modelOf is the scenario's profile of the variant.
func modelOf(s *scenario.Scenario, variant string) scenario.LatencyModel {
	return s.Models[slices.IndexFunc(s.Models, func(l scenario.LatencyModel) bool { return l.Variant == variant })]
}

// measuredKeys are those of a profile that every measurement beside neighbours tells.
var measuredKeys = []string{
	"launch_floor_ms", "weights_ms", "growth_per_sequence", "token_ms", "context_token_ms", "overhead_ms", "sequence_ms", "contention",
}

// What the engines were given is what is measured, within the stated intervals.
func TestAMeasuredProfileIsTheEngines(t *testing.T) {
	for _, c := range []struct {
		scenario, model string
		neighbours      []string
	}{
		{"tiny", "large", []string{"small"}},
		{"titan-rtx-opt", "opt-6.7b", []string{"opt-1.3b", "opt-125m"}},
		{"titan-rtx-opt", "opt-1.3b", []string{"opt-6.7b"}},
		{"titan-rtx-opt", "opt-125m", []string{"opt-6.7b"}},
	} {
		p, m, s := measuredOf(t, c.scenario, c.model, c.neighbours...)
		known := modelOf(s, c.model)
		text, err := yaml.Marshal(known)
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := yaml.Unmarshal(text, &keys); err != nil {
			t.Fatal(err)
		}
		for _, key := range measuredKeys {
			i, ok := p.Measured.Intervals[key]
			if want, known := number(keys[key]); !ok || !known || want < i.Low || want > i.High {
				t.Errorf("%s %s: %s is %g, not in %.4g", c.scenario, c.model, key, want, i)
			}
		}
		if !p.Measured.Fits || p.Measured.Explained < 0.98 {
			t.Errorf("%s %s: explains %.3f; %v", c.scenario, c.model, p.Measured.Explained, p.Measured.Faults)
		}
		if got := p.Profiles[0]; got.KVBytes != known.KVBytes || got.WeightBytes != known.WeightBytes {
			t.Errorf("%s %s: memory %+v, want %+v", c.scenario, c.model, got, known)
		}
		if e := p.Measured.Simulated; e == nil || e.EndToEnd.Median > 0.02 || e.TPOT.Median > 0.02 {
			t.Errorf("%s %s: simulated %+v", c.scenario, c.model, e)
		}
		for _, r := range m.Requests {
			if r.First <= r.Arrival || r.OutputTokens > 1 && r.Last <= r.First || r.PromptTokens < 1 {
				t.Fatalf("request %+v", r)
			}
		}
	}
}

// What each prompt takes of an engine that takes one at a time is told from what it
// takes on its way.
func TestTheOverheadOfAPromptIsMeasured(t *testing.T) {
	const promptMS = 3.5
	tiny, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(tiny), "overhead_ms:", fmt.Sprintf("prompt_ms: %v\n    overhead_ms:", promptMS))
	file := t.TempDir() + "/one.yaml"
	text = strings.Replace(text, "\n  max_batch_tokens:", "\n  max_prompts: 1\n  max_batch_tokens:", 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, _, _ := measuredOf(t, file, "large", "small")
	if got := p.Profiles[0].Prompt; math.Abs(got-promptMS) > 0.35 || !p.Measured.Fits {
		t.Errorf("prompt_ms %.3f, want %v; %v", got, promptMS, p.Measured.Faults)
	}
	if e := p.Measured.Simulated; e == nil || !e.OnePrompt || e.EndToEnd.Median > 0.02 {
		t.Errorf("simulated %+v", e)
	}
}

// The requests of a measurement are timed where they are sent: what is simulated of
// them has their way in it.
func TestTheWayCountsWhereAMeasurementIsSimulated(t *testing.T) {
	f := &steady.Fitted{Profile: profile.Profile{Weights: 2, Token: 0.1, Overhead: 1}}
	model := fit.Model{Profile: f.Profile, KVTokens: 1 << 12, Engine: engine.Config{
		Scheduler: engine.PrefillFirst, MaxBatchTokens: 1 << 12, MaxSequences: 16, BlockTokens: fit.BlockTokens,
	}}
	var requests []fit.Request
	for i := range 20 {
		requests = append(requests, fit.Request{ID: fmt.Sprint(i), PromptTokens: 20, OutputTokens: 5, Arrival: float64(i / 4)})
	}
	times, err := model.Predict(requests)
	if err != nil {
		t.Fatal(err)
	}
	f.Profile.Request = 3
	var records []loadgen.Record
	for i, r := range requests {
		records = append(records, loadgen.Record{
			ID: r.ID, PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, Beside: 3,
			Arrival: r.Arrival, First: times[i].First + 0.003, Last: times[i].Last + 0.003,
		})
	}
	if got := simulateAlone(f, records); got == nil || got.TTFT.P90 > 1e-6 || got.EndToEnd.P90 > 1e-6 {
		t.Errorf("an engine as simulated, 3 ms away: %+v", got)
	}
}

// number is a YAML number, whole or not.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}

// The profile is as a scenario has it, and the log as profile fit reads it.
func TestAMeasuredProfileIsAScenarios(t *testing.T) {
	p, m, _ := measuredOf(t, "tiny", "large", "small")
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	var back Profile
	if err := yaml.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%.3g", back.Profiles[0].Weights), fmt.Sprintf("%.3g", p.Profiles[0].Weights); got != want || back.Measured.Date == "" || back.Measured.Machine == "" {
		t.Errorf("written and read: %+v", back)
	}
	log, err := RequestLog(m.Requests)
	if err != nil {
		t.Fatal(err)
	}
	read, err := fit.ReadLog(strings.NewReader(string(log)), "log", 0)
	if err != nil || len(read.Requests) != len(m.Requests) {
		t.Errorf("the log has %d of %d requests: %v", len(read.Requests), len(m.Requests), err)
	}
}

// A measurement that is given a second goes on until each load was tried once, and no longer.
func TestAShortMeasurementTriesEachLoadOnce(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		engines := enginetest.New(t, s)
		defer engines.Close()
		m, err := loadgen.Run(t.Context(), loadgen.Config{
			Target: loadgen.Target{URL: "http://127.0.0.1", Model: "large"}, Transport: engines,
			Neighbours: []loadgen.Target{{URL: "http://127.0.0.1", Model: "small"}},
			Batches:    []int{1, 4, 16}, Prompts: []int{16, 64, 256, 512}, Output: 16, Time: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		if m.Rounds != 1 || m.Took < 2*time.Second {
			t.Errorf("%d rounds in %v; want one, of more than twice the time", m.Rounds, m.Took)
		}
	})
}

// A session measures in rounds, whose halves are apart, as the user likes, and times first
// tokens of engines that have been idle, but engines beside others once they have run for long.
func TestASessionMeasuresInRounds(t *testing.T) {
	const rest, timed = 30 * time.Millisecond, 700 * time.Millisecond
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	var m *loadgen.Measurement
	synctest.Test(t, func(t *testing.T) {
		engines := enginetest.New(t, s)
		defer engines.Close()
		session, err := loadgen.Begin(t.Context(), loadgen.Config{
			Target: loadgen.Target{URL: "http://127.0.0.1", Model: "small"}, Transport: engines,
			Neighbours: []loadgen.Target{{URL: "http://127.0.0.1", Model: "large"}},
			Batches:    []int{1, 4}, Prompts: []int{16, 64}, Output: 16,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		for range 3 {
			if err := session.Alone(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if err := session.Beside(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if m, err = session.Measurement(); err != nil {
			t.Fatal(err)
		}
	})
	if m.Rounds != 3 || m.Took > time.Minute {
		t.Errorf("%d rounds in %v", m.Rounds, m.Took)
	}
	cells := map[string]int{}
	for _, s := range m.Samples {
		if !s.Queued {
			cells[s.Cell]++
		}
	}
	for cell, n := range cells {
		if n != 3 {
			t.Errorf("%s: %d samples in three rounds", cell, n)
		}
	}
	// Alone, the engine rests before each request; beside a neighbour it keeps on running, for
	// longer than it is timed for.
	began := 0.0
	for i, r := range m.Requests {
		if i == 0 {
			continue
		}
		last := m.Requests[i-1]
		rested := r.Arrival-last.Last >= rest.Seconds()-1e-6
		if rested && len(last.Neighbours) > 0 && last.Last-began < timed.Seconds() {
			t.Errorf("the engine ran for %v s beside a neighbour, up to %+v", last.Last-began, last)
		}
		if rested {
			began = r.Arrival
		} else if r.OutputTokens == 1 && len(r.Neighbours) == 0 {
			t.Errorf("the engine was idle for %v s before %+v", r.Arrival-last.Last, r)
		}
	}
}
