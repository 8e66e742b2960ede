package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/env/fit"
	"gearshift/env/fit/steady"
	"gearshift/router/profile"
	"gearshift/serving/backend"
	"gearshift/serving/measure"
	openai "gearshift/serving/wire"
	"gearshift/workloads"
)

// inProcess answers for the simulated engines of a scenario's first host.
type inProcess struct {
	engines *backend.Simulated
	models  []string
}

func newInProcess(t *testing.T, s *scenario.Scenario) *inProcess {
	t.Helper()
	configs, err := enginesOf(s, engineOptions{host: s.Hosts[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	configs[0].Seed = workloads.Seed(workloads.Serving, 1)
	p := new(inProcess)
	for _, r := range configs[0].Table.Replicas {
		p.models = append(p.models, configs[0].Table.Variants[r.Variant].Name)
	}
	if p.engines, err = backend.NewSimulated(configs[0]); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		var list openai.Models
		for _, m := range p.models {
			list.Data = append(list.Data, openai.Model{ID: m})
		}
		body, err := json.Marshal(list)
		return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(strings.NewReader(string(body))), Request: r}, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	request, err := openai.ParseRequest(body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return p.engines.Replica(slices.Index(p.models, request.Model)).RoundTrip(r)
}

// measured measures a variant of a scenario beside others, in no time.
func measuredOf(t *testing.T, ref, model string, neighbours ...string) (*measuredProfile, *measure.Measurement, *scenario.Scenario) {
	t.Helper()
	s, err := scenario.Load(ref)
	if err != nil {
		t.Fatal(err)
	}
	o := measureOptions{variant: model, scenario: ref, resamples: 100}
	var p *measuredProfile
	var m *measure.Measurement
	synctest.Test(t, func(t *testing.T) {
		engines := newInProcess(t, s)
		defer engines.engines.Close()
		c := measure.Config{
			Target: measure.Target{URL: "http://127.0.0.1", Model: model}, Transport: engines,
			Batches: []int{1, 4, 16}, Prompts: []int{16, 64, 256, 512}, Output: 16, Time: time.Minute,
		}
		for _, n := range neighbours {
			c.Neighbours = append(c.Neighbours, measure.Target{URL: "http://127.0.0.1", Model: n})
		}
		if m, err = measure.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	})
	if err := o.memory(model); err != nil {
		t.Fatal(err)
	}
	if p, err = o.profileOf(m); err != nil {
		t.Fatal(err)
	}
	return p, m, s
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
		known := s.Models[slices.IndexFunc(s.Models, func(l scenario.LatencyModel) bool { return l.Variant == c.model })]
		keys, err := keyed(known)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range measuredKeys {
			i, ok := p.Measured.Intervals[key]
			if want, known := number(keys.(map[string]any)[key]); !ok || !known || want < i.Low || want > i.High {
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
	text := strings.ReplaceAll(succeed(t, "scenario", "show", "tiny"), "overhead_ms:", fmt.Sprintf("prompt_ms: %v\n    overhead_ms:", promptMS))
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
	var records []measure.Record
	for i, r := range requests {
		records = append(records, measure.Record{
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
	text, err := p.text()
	if err != nil {
		t.Fatal(err)
	}
	var back measuredProfile
	if err := yaml.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%.3g", back.Profiles[0].Weights), fmt.Sprintf("%.3g", p.Profiles[0].Weights); got != want || back.Measured.Date == "" || back.Measured.Machine == "" {
		t.Errorf("written and read: %+v", back)
	}
	log, err := requestLog(m.Requests)
	if err != nil {
		t.Fatal(err)
	}
	read, err := fit.ReadLog(strings.NewReader(string(log)), "log", 0)
	if err != nil || len(read.Requests) != len(m.Requests) {
		t.Errorf("the log has %d of %d requests: %v", len(read.Requests), len(m.Requests), err)
	}
}

// Each fault is one line, and nothing is written.
func TestProfileMeasureRefuses(t *testing.T) {
	out := t.TempDir() + "/profile.yaml"
	measuring := func(args ...string) []string {
		return append([]string{"profile", "measure", "--out", out}, args...)
	}
	nobody := "http://127.0.0.1:1"
	fail(t, measuring(), "--url URL is missing")
	fail(t, measuring("--url", "127.0.0.1:8000"), "--url", "want the URL of an engine")
	fail(t, measuring("--url", nobody), "cannot reach "+nobody, "refused")
	fail(t, measuring("--url", nobody, "--neighbour", "x"), "--neighbour", "URL=MODEL")
	fail(t, measuring("--url", nobody+"=a", "--neighbour", nobody+"=a"), "the engine to be measured itself")
	fail(t, measuring("--url", nobody, "--batches", "4,1"), "--batches [4 1]", "ascending")
	fail(t, measuring("--url", nobody, "--prompts", "16"), "--prompts [16]", "at least two")
	fail(t, measuring("--url", nobody, "--output", "2"), "--output 2", "at least 4")
	fail(t, measuring("--url", nobody, "--time", "0s"), "--time 0s")
	fail(t, measuring("--url", nobody, "--model-bytes", "-1"), "--model-bytes -1 is negative")
	fail(t, measuring("--url", nobody, "--date", "noon"), "--date", "YYYY-MM-DD")
	fail(t, measuring("--url", nobody, "--scenario", "none"), `"none"`)
	folder := t.TempDir()
	fail(t, measuring("--url", nobody, "--out", folder+"/none/p.yaml"), "--out "+folder, "no such file or directory")
	fail(t, measuring("--url", nobody, "--out", folder), "--out "+folder+" is a folder")
	fail(t, measuring("--url", nobody, "--log", folder+"/none/l.jsonl"), "--log "+folder, "no such file or directory")
	fail(t, measuring("--url", nobody, "--api-key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY", "empty")

	two := serverOf(t, `{"data":[{"id":"a"},{"id":"b"}]}`, nil)
	fail(t, measuring("--url", two), "it has several models; name one of a, b")
	fail(t, measuring("--url", two, "--model", "c"), `no model "c"; it has a, b`)
	fail(t, measuring("--url", serverOf(t, `[]`, nil)), "OpenAI-compatible")
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}

// An engine that takes long to warm up is no reason to say that it does not stream.
func TestMeasureWaitsForAColdEngine(t *testing.T) {
	asked := 0
	url := serverOf(t, `{"data":[{"id":"a"}]}`, func(w http.ResponseWriter, words int) {
		if asked++; asked == 1 {
			time.Sleep(300 * time.Millisecond)
		}
		for range 4 {
			fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintf(w, `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":4}}`+"\n\ndata: [DONE]\n\n", words)
	})
	if _, err := measure.NewClient(t.Context(), []measure.Target{{URL: url}}, 0, nil); err != nil {
		t.Error(err)
	}
}

// An engine that stops in the midst, that does not stream, or does not count.
func TestProfileMeasureOfBadEngines(t *testing.T) {
	const models = `{"data":[{"id":"a"}]}`
	event := func(text string) string { return `data: {"choices":[{"delta":{"content":"` + text + `"}}]}` + "\n\n" }
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}` + "\n\ndata: [DONE]\n\n"
	asked := 0
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, words int)
		want   string
	}{
		"breaks off": {func(w http.ResponseWriter, words int) {
			if asked++; asked > 6 {
				fmt.Fprint(w, event("x"))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			for range 4 {
				fmt.Fprint(w, event("x"))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(2 * time.Millisecond)
			}
			fmt.Fprintf(w, usage, words, 4)
		}, "went away"},
		"at once": {func(w http.ResponseWriter, words int) {
			time.Sleep(20 * time.Millisecond)
			fmt.Fprintf(w, event("x")+event("x")+usage, words, 2)
		}, "does not stream"},
		"no usage":   {func(w http.ResponseWriter, _ int) { fmt.Fprint(w, event("x")+"data: [DONE]\n\n") }, "does not tell the tokens"},
		"no content": {func(w http.ResponseWriter, words int) { fmt.Fprintf(w, usage, words, 2) }, "has no content"},
		"an error": {func(w http.ResponseWriter, _ int) {
			http.Error(w, `{"error":{"message":"out of memory"}}`, http.StatusInternalServerError)
		}, "500"},
		"always full": {func(w http.ResponseWriter, _ int) {
			http.Error(w, `{"error":{"message":"full"}}`, http.StatusTooManyRequests)
		}, "full"},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir() + "/profile.yaml"
			fail(t, []string{"profile", "measure", "--url", serverOf(t, models, c.answer), "--out", out, "--time", "5s"}, c.want)
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

// serverOf is a server with a list of models, whose answers a function gives that
// is told the words of the prompt.
func serverOf(t *testing.T, models string, answer func(w http.ResponseWriter, words int)) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, models) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer(w, strings.Count(string(body), " ")+1)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}
