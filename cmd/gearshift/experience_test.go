//go:build !serveonly

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/env/engine"
	"gearshift/env/evaluation/logged"
	"gearshift/internal/app"
	"gearshift/internal/scenario"
	"gearshift/internal/training"
	"gearshift/internal/training/policies"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/config"
	"gearshift/serving/experience"
)

// logOf has a server of the scenario answer n requests, at so many per second, by
// simulated engines, and returns the file that it logs to. Time is the test's.
func logOf(t *testing.T, s *scenario.Scenario, n int, rate float64, choose func(*router.Core) error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "experience.jsonl")
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		core, err := app.NewCore(s, s.Serving.Fallback, log)
		if err == nil {
			err = choose(core.Core)
		}
		if err != nil {
			t.Fatal(err)
		}
		backends, closeBackends := simulatedBackends(t, s, core.Table())
		defer closeBackends()
		config := s.Serving.Config()
		config.Experience.Path = path
		options := serving.Options{Config: config, Router: core, Backends: backends, Log: log}
		begin, end, err := app.LogExperience(&options, s)
		if err == nil {
			err = begin()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		server, err := serving.New(options)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		random := rand.New(rand.NewPCG(1, 1))
		var clients sync.WaitGroup
		for range n {
			time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
			task, tokens := s.Tasks[random.IntN(len(s.Tasks))].Name, 1+random.IntN(40)
			words := strings.Repeat("gear ", 1+random.IntN(60))
			clients.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(
					fmt.Sprintf(`{"model":"auto","stream":true,"messages":[{"role":"user","content":%q}],"max_tokens":%d,"ignore_eos":true}`, words, tokens)))
				r.Header.Set("X-Gearshift-Task", task)
				w := httptest.NewRecorder()
				if server.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Errorf("%d: %s", w.Code, w.Body)
				}
			})
		}
		clients.Wait()
	})
	return path
}

// simulatedBackends are engines of the scenario for its replicas.
func simulatedBackends(t *testing.T, s *scenario.Scenario, table *fleet.Table) ([]serving.Backend, func()) {
	t.Helper()
	config := backend.SimulatedConfig{Table: table, OutputTokens: s.Workload.OutputSampler(table.Tasks), Seed: 1}
	for i, tokens := range s.KVTokens() {
		e, err := engine.New(s.Engine, s.Profiles()[i], tokens)
		if err != nil {
			t.Fatal(err)
		}
		config.Engines = append(config.Engines, e)
	}
	simulated, err := backend.NewSimulated(config)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]serving.Backend, len(table.Replicas))
	for i := range list {
		list[i].Transport = simulated.Replica(i)
	}
	return list, simulated.Close
}

// spy chooses by turns and notes what it was shown, encoded by the live encoder.
type spy struct {
	encoder *observation.Encoder
	seen    map[uint64][]float32
}

func (*spy) Name() string { return "spy@1" }
func (*spy) Scratch() int { return 0 }
func (p *spy) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	x := make([]float32, p.encoder.Dim())
	p.encoder.Encode(x, v, r)
	p.seen[r.ID] = x
	return int(r.ID) % len(v.Table.Variants)
}

// What training makes of a logged view is to the last bit what the router showed
// its policy, for every kind of feature.
func TestLoggedObservationsAreThoseOfTheRouter(t *testing.T) {
	s := scenarioOf(t, "tiny")
	s.Training.Observation = []observation.Feature{{Kind: observation.HostBusy, Scale: []float64{1, 1}}} // which has it measured
	for _, places := range []bool{false, true} {
		live := &spy{encoder: encoderOf(t, s, s.ServingTable(), places), seen: map[uint64][]float32{}}
		path := logOf(t, s, 200, 10, func(c *router.Core) error { return c.SetPolicy(live) })
		log, err := policies.ReadLogs(s, []string{path})
		if err != nil {
			t.Fatal(err)
		}
		recording, err := training.NewLogRecording(s, live.encoder.Spec(), log)
		if err != nil {
			t.Fatal(err)
		}
		if recording.Episodes() != 1 || recording.Transitions() != 199 {
			t.Fatalf("%d stretches of %d transitions", recording.Episodes(), recording.Transitions())
		}
		rows := log.Runs[0].Rows // one stretch
		x := recording.Reset(0)
		var busy bool
		for i, over := 0, false; ; i++ {
			r := &rows[i]
			if !slices.Equal(x, live.seen[r.Request.ID]) {
				t.Fatalf("request %d: %v from the log, %v in the router", r.Request.ID, x, live.seen[r.Request.ID])
			}
			busy = busy || slices.Max(r.View.InFlight) > 2
			if over {
				break
			}
			if want := r.Variant; !places && recording.Action() != want || places && recording.Action() != r.Replica {
				t.Fatalf("request %d: action %d", r.Request.ID, recording.Action())
			}
			step := recording.Step(recording.Action())
			if len(step.Completed) != 1 || step.Completed[0].Utility != r.Utility || step.Elapsed != rows[i+1].View.Now-r.View.Now || step.Terminated {
				t.Fatalf("request %d: %+v", r.Request.ID, step)
			}
			x, over = step.Observation, step.Truncated
		}
		if !busy {
			t.Error("nothing was ever in flight: the test shows little")
		}
	}
}

// Serve, log, evaluate on the log, fine-tune on it, store: the whole circle.
func TestExperienceCircle(t *testing.T) {
	store, path := storePath(t), brief(t)
	s := scenarioOf(t, path)
	s.Serving.Server.Overload.Shed = config.ShedNever // as the simulator
	trainTiny(t, store, "--scenario", path, "--name", "tiny", "--steps", "1500")
	log := logOf(t, s, 300, 6, func(c *router.Core) error {
		return c.SetPolicy(decides(t, s, store, "tiny@1"))
	})
	from := []string{"--scenario", path, "--store", store, "--from-log", log}

	var report logged.Report
	out := succeed(t, append([]string{"eval", "--format", "json"}, from...)...)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	l := report.Log
	if l.Requests != 300 || l.Missing != 0 || l.Judged != 300 || l.Policies["tiny@1"] != 300 || l.Utility.Mean < 0.5 {
		t.Errorf("%+v", l)
	}
	own := report.Results[0]
	if own.Policy != "tiny@1" || own.Agreement != 1 || own.Matches != 300 || own.Matched.Mean != l.Utility.Mean {
		t.Errorf("the policy that logged: %+v", own)
	}
	// The simulator is the world that served, but for when the engines' steps begin.
	if d := l.Simulated.Utility.Mean - l.Utility.Mean; d < -0.03 || d > 0.03 {
		t.Errorf("measured %+v, simulated %+v", l.Utility, l.Simulated.Utility)
	}
	for name, ratio := range l.Simulated.PaceRatio {
		if ratio < 0.95 || ratio > 1.1 {
			t.Errorf("%s: measured ×%.3f of simulated", name, ratio)
		}
	}
	if len(report.Results) < 5 || len(report.Assumptions) < 6 {
		t.Errorf("%d policies, %d assumptions", len(report.Results), len(report.Assumptions))
	}

	out = succeed(t, append([]string{"train", "--from", "tiny"}, from...)...)
	for _, want := range []string{"learnt from 239 logged", "stored policy tiny@2", "with tiny@1: "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	if out = succeed(t, append([]string{"eval", "--policy", "tiny@2", "--policy", "tiny@1"}, from...)...); !strings.Contains(out, "They assume:") {
		t.Errorf("%s", out)
	}
}

// A start that fails leaves the log of experience as it was.
func TestServeThatFailsLeavesTheLog(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	log := write(t, "experience.jsonl", "of another\n")
	path := edited(t, "tiny", "serving:\n", "serving:\n  experience: {path: "+log+"}\n")
	code, _, stderr := gearshift(t, "serve", "--scenario", path, "--store", storePath(t), "--addr", taken.Addr().String(), "--admin-addr", "off")
	if code != 1 || !strings.Contains(stderr, "cannot listen on") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(log), "*")); len(files) != 1 || text(t, log) != "of another\n" {
		t.Errorf("%v are there, and in the log is %q", files, text(t, log))
	}
}

// A policy that decided what is logged and is in the store no more is left out with a
// note, unless it is asked for.
func TestEvalFromLogWithoutItsPolicy(t *testing.T) {
	s := scenarioOf(t, "tiny")
	log := loggedRequests(t, mistaken(t, s, s), s, decides(t, s, "", "slackfit"), "u1", 100)
	gone := write(t, "gone.jsonl", strings.ReplaceAll(text(t, log), `"policy":"slackfit:0.93"`, `"policy":"gone@3"`))
	eval := []string{"eval", "--scenario", "tiny", "--store", storePath(t), "--from-log", gone, "--format", "csv"}
	code, stdout, stderr := gearshift(t, eval...)
	if n := strings.Count(succeed(t, "eval", "--scenario", "tiny", "--from-log", log, "--format", "csv"), "slackfit:0.93"); n != 1 {
		t.Errorf("the rule that decided is judged %d times, as slackfit too", n)
	}
	if code != 0 || strings.Count(stderr, "note: policy gone@3 is not judged: ") != 1 || !strings.Contains(stdout, "static:large") || strings.Contains(stdout, "gone@3") {
		t.Errorf("%d: %s, %s", code, stdout, stderr)
	}
	fail(t, append(eval, "--policy", "gone@3"), "no checkpoint store")
}

// Of a log with holes nothing is replayed, and it is said why; what is asked for in
// vain is an error.
func TestEvalFromLogFaults(t *testing.T) {
	s := scenarioOf(t, "tiny")
	log := loggedRequests(t, mistaken(t, s, s), s, decides(t, s, "", "slackfit"), "u1", 200)
	eval := func(flags ...string) []string {
		return append([]string{"eval", "--scenario", "tiny", "--store", storePath(t)}, flags...)
	}
	fail(t, eval("--from-log", log, "--workload", "u1"), "--workload has no meaning with --from-log")
	fail(t, eval("--from-log", log, "--routers", "2"), "--routers has no meaning with --from-log")
	fail(t, eval("--from-log", log, "--gauge-interval", "1s"), "--gauge-interval has no meaning with --from-log")
	header, _, _ := strings.Cut(text(t, log), "\n")
	idle := write(t, "idle.jsonl", strings.Replace(header, `"run":"`, `"run":"1d`, 1)+"\n")
	fail(t, eval("--from-log", idle), "idle.jsonl: no requests are logged")
	succeed(t, eval("--from-log", log, idle, "--policy", "slackfit")...)
	fail(t, eval("--from-log", log, "--format", "svg"), `--format "svg"`)
	fail(t, eval("--from-log", log, "--policy", "nobody"), "no checkpoint store")
	fail(t, eval("--from-log", log, "--policy", "clairvoyant"), "clairvoyant")
	fail(t, []string{"eval", "--scenario", "titan-rtx-opt", "--from-log", log}, "scenario titan-rtx-opt", "the log is of a fleet with tasks [chat search]")
	fail(t, eval("more.jsonl"), `unexpected argument "more.jsonl": gearshift eval takes flags alone`)
	read, err := experience.Load(log)
	if err != nil {
		t.Fatal(err)
	}
	var holes bytes.Buffer
	for i, line := range strings.SplitAfter(text(t, log), "\n") {
		if i == 0 || i%4 != 0 {
			holes.WriteString(line)
		}
	}
	holes.WriteString(`{"id":201,"ti`) // torn
	code, stdout, stderr := gearshift(t, eval("--from-log", write(t, "holes.jsonl", holes.String()), "--policy", "slackfit", "--format", "csv")...)
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if code != 0 || err != nil || len(rows) != 3 || rows[2][3] != "" || !strings.Contains(stderr, "no replay: 2") || !strings.Contains(stderr, "the last line breaks off") {
		t.Errorf("%d of %d: %v, %s, %s", code, read.Len(), err, stdout, stderr)
	}
}
