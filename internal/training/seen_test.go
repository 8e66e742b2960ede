package training

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/router/fleet"
	"gearshift/serving/experience"
	"gearshift/workloads"
)

// seeing is a fleet whose hosts are lost in training, with failover, and whose policies see what loads.
const seeing = `
evaluation: {requests: 60, stable_rates: [2], phase_s: 5}
training:
  load: {min_rate: 1, max_rate: 8, uniform_share: 0.3, min_phase_s: 5, max_phase_s: 30, disturbances: {share: 1, calm_s: 5, lasts_s: 20}}
  observation:
    - {kind: task-one-hot}
    - {kind: in-flight, scale: [5, 10, 5, 10, 10, 10]}
    - {kind: states}
    - {kind: ready-in, scale: [1, 1, 1, 1, 1, 1]}
    - {kind: new-version}
    - {kind: host-busy, scale: [1, 1, 1, 1, 1, 1]}
  presets:
    short: {decisions: 600, hidden: [16], batch: 32, train_every: 4, learning_rate: 0.0005, final_learning_rate: 0.0001, final_share: 0.3,
      discount: {time_constant_s: 15}, target_rate: 0.01, epsilon: {start: 1, end: 0.1, share: 0.5}, replay: 600, warmup: 100, huber: 1, clip_norm: 10,
      centre_rewards: true, weight_average: 0, episode: 300, validate_every: 600, checkpoint_every: 600}
`

// seeingFile writes the scenario to a file.
func seeingFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../scenario/testdata/controlled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "seeing.yaml")
	if err := os.WriteFile(path, append(text, seeing...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A policy that sees states, versions and how busy hosts are is trained where these change, and two runs end with
// the same bytes.
func TestTrainingMeetsStates(t *testing.T) {
	path := seeingFile(t)
	s, err := scenario.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEnvironment(s, s.Spec(), &rl.Config{Episode: 300})
	if err != nil {
		t.Fatal(err)
	}
	var loading, lost int
	x := e.Reset(workloads.Seed(workloads.Training, 1))
	for over := false; !over; {
		for i := range e.View().Table.Replicas {
			switch e.View().State(i) {
			case fleet.Loading:
				loading++
			case fleet.Down:
				lost++
			}
		}
		step := e.Step(0)
		if x, over = step.Observation, step.Terminated || step.Truncated; e.Err() != nil {
			t.Fatal(e.Err())
		}
	}
	if loading == 0 || lost == 0 || len(x) != s.Spec().Dim() {
		t.Errorf("%d replicas seen that load, and %d that are lost; want some of each", loading, lost)
	}
	var digests []string
	for range 2 {
		var out, log bytes.Buffer
		store := storePath(t)
		if err := Train(t.Context(), Options{Scenario: path, Preset: "short", Store: store, Name: "seeing", Seed: 1, Uncompared: true}, &out, &log); err != nil {
			t.Fatal(err, log.String())
		}
		entry, err := (&checkpoints.Store{Path: store}).Lookup(checkpoints.Ref{Name: "seeing", Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, entry.Digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("two runs end with %s and %s", digests[0], digests[1])
	}
}

// Logged requests that do not have what a policy sees are refused.
func TestLogsWithoutWhatIsSeen(t *testing.T) {
	s, err := scenario.Load(seeingFile(t))
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(h *experience.Header){
		"":                                       func(*experience.Header) {},
		"host-busy: nothing measures":            func(h *experience.Header) { h.Busy = false },
		"states: the log does not have the stat": func(h *experience.Header) { h.States = false },
	} {
		run := experience.Run{Header: experience.NewHeader(s.ServingTable())}
		other := run
		change(&other.Header)
		log := &experience.Log{Runs: []experience.Run{other, run}}
		_, err := NewLogRecording(s, s.Spec(), log)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if table, err := policies.LogTable(s, log); err != nil || table.Measured != other.Header.Busy || table.Bare == other.Header.States {
			t.Errorf("%+v, %v", table, err)
		}
	}
}
