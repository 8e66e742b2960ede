package app

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/serving/jobs"
)

// twoInputs is a model of two inputs on two hosts, on one of which one combination also stands
// alone on a third.
const twoInputs = `
tasks:
  - {name: digits, total_ms: 700, quality: {digits-image: 0.81, digits-audio: 0.88, digits-image-audio: 0.96}}
  - {name: pictures, total_ms: 300, quality: {digits-image: 0.5}}
models:
  - {name: digits, memory: 40MiB, modalities: [image, audio]}
hosts: [{name: cpu0, memory: 2GiB}, {name: cpu1, memory: 2GiB}, {name: cpu2, memory: 2GiB}]
replicas:
  - {model: digits, hosts: [cpu0, cpu1], memory: 30%}
  - {variant: digits-image, hosts: [cpu2], memory: 30%}
profiles:
  - {variant: digits-image, batch_ms: {1: 5, 2: 7}}
  - {variant: digits-audio, batch_ms: {1: 7, 2: 10, 4: 15}}
  - {variant: digits-image-audio, batch_ms: {1: 11, 2: 16}}
modality: {policy: aggressive, table: 3}
`

func jobsOf(t *testing.T, text string, store *checkpoints.Store, log *strings.Builder) (jobs.Config, *scenario.Scenario) {
	t.Helper()
	s, err := scenario.Parse("two.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	table := s.ServingTable()
	return jobsConfig(s, table, store, slog.New(slog.NewTextHandler(log, nil))), s
}

// TestJobsOfAScenario: the model, its options and tasks, and a worker on each host that has all
// combinations.
func TestJobsOfAScenario(t *testing.T) {
	c, _ := jobsOf(t, twoInputs, nil, new(strings.Builder))
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.Policy != "aggressive" || c.Largest != 3 || c.Mixing != "mixed" || c.Fixed || len(c.Models) != 1 {
		t.Errorf("%+v", c)
	}
	m := c.Models[0]
	var workers []string
	for _, w := range m.Workers {
		workers = append(workers, w.Name)
	}
	if !slices.Equal(workers, []string{"cpu0", "cpu1"}) {
		t.Fatalf("workers %v", workers)
	}
	if w := m.Workers[1]; !slices.Equal(w.Replicas, []int{3, 4, 5}) || !slices.Equal(w.Latency[1], []float64{7, 10, 12.5, 15}) {
		t.Errorf("worker on cpu1: replicas %v, times %v", w.Replicas, w.Latency)
	}
	if len(m.Tasks) != 2 || m.Tasks[0].Total != 700*time.Millisecond || m.Tasks[1].Quality["digits-image"] != 0.5 || len(m.Tasks[1].Quality) != 1 {
		t.Errorf("tasks %+v", m.Tasks)
	}
	if o := m.Options[2]; o.Variant != "digits-image-audio" || !slices.Equal(o.Modalities, []string{"image", "audio"}) {
		t.Errorf("option %+v", o)
	}
}

// TestNoJobsWithoutModalities: a scenario of sizes has none.
func TestNoJobsWithoutModalities(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	if c := jobsConfig(s, s.ServingTable(), nil, nil); len(c.Models) > 0 {
		t.Errorf("%+v", c.Models)
	}
}

// TestOnlyJobs: single requests are the exception where all variants are combinations of inputs,
// which one without a table of batches is not.
func TestOnlyJobs(t *testing.T) {
	_, two := jobsOf(t, twoInputs, nil, new(strings.Builder))
	tiny, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	_, mixed := jobsOf(t, strings.NewReplacer(
		"digits-image: 0.5}}", "digits-image: 0.5, plain: 1}}",
		"models:", "variants:\n  - {name: digits-image, model: digits, modalities: [image]}\n  - {name: digits-audio, model: digits, modalities: [audio]}\n"+
			"  - {name: digits-image-audio, model: digits, modalities: [image, audio]}\n  - {name: plain}\nmodels:",
		"profiles:", "  - {variant: plain, hosts: [cpu2], memory: 30%}\nprofiles:\n  - {variant: plain, batch_ms: {1: 5, 2: 7}, weight_bytes: 1000}",
	).Replace(twoInputs), nil, new(strings.Builder))
	for name, c := range map[string]struct {
		s    *scenario.Scenario
		want bool
	}{"combinations": {two, true}, "sizes": {tiny, false}, "both": {mixed, false}} {
		if got := onlyJobs(c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestStoredStrategies: the server takes the table that the command has stored, and makes its
// own, with a line, once the profile is another.
func TestStoredStrategies(t *testing.T) {
	store := &checkpoints.Store{Path: filepath.Join(t.TempDir(), "s.db")}
	_, s := jobsOf(t, twoInputs, store, new(strings.Builder))
	for _, of := range policies.StrategyTables(s, "mixed") {
		table, err := of.Make()
		if err != nil {
			t.Fatal(err)
		}
		if err := of.Put(store, table); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"", "", "strategies of jobs are those of the store"},
		{"{1: 11, 2: 16}", "{1: 12, 2: 16}", `it is made again`},
	} {
		var log strings.Builder
		config, _ := jobsOf(t, strings.Replace(twoInputs, c.from, c.to, 1), store, &log)
		service, err := jobs.New(config, jobs.Options{Clock: func() time.Duration { return 0 }})
		if err != nil {
			t.Fatal(err)
		}
		service.Close()
		if !strings.Contains(log.String(), c.want) {
			t.Errorf("with %q the log has no %q:\n%s", c.to, c.want, log.String())
		}
	}
}
