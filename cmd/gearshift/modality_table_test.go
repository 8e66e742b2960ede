package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints"
)

// order runs the command with the arguments.
func order(args ...string) (string, error) {
	var out bytes.Buffer
	c := newModalityCommand()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.Execute()
	return out.String(), err
}

// film is a model of the paper's qualities.
const film = `
tasks:
  - {name: film, total_ms: 1000, quality: {film-audio: 0.67, film-video: 0.70, film-audio-video: 0.80}}
models:
  - {name: film, memory: 40MiB, modalities: [audio, video]}
hosts: [{name: cpu0, memory: 2GiB}]
replicas: [{model: film, hosts: [cpu0], memory: 20%}]
profiles:
  - {variant: film-audio, batch_ms: {1: 20, 16: 320}}
  - {variant: film-video, batch_ms: {1: 30, 16: 480}}
  - {variant: film-audio-video, batch_ms: {1: 60, 16: 960}}
`

// TestTableOfAScenario: the strategies of jobs of two requests, by either mixing; both tables
// are stored.
func TestTableOfAScenario(t *testing.T) {
	store := filepath.Join(t.TempDir(), "s.db")
	text, err := order("table", "--scenario", write(t, "film.yaml", film), "--store", store, "--json", "--size", "2")
	if err != nil {
		t.Fatal(err)
	}
	var list []tableJSON
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	want := map[string][]float64{"mixed": {0.67, 0.685, 0.7, 0.735, 0.75, 0.8}, "uniform": {0.67, 0.7, 0.8}}
	for _, of := range list {
		var got []float64
		for _, s := range of.Sizes[0].Strategies {
			got = append(got, math.Round(s.Quality*1e6)/1e6)
		}
		if !slices.Equal(got, want[of.Mixing]) || of.Model != "film" || of.Host != "cpu0" || of.Task != "film" {
			t.Errorf("%+v: qualities %v, want %v", of, got, want[of.Mixing])
		}
	}
	if s := list[0].Sizes[0].Strategies[3]; s.Strategy["film-audio"] != 1 || s.Strategy["film-audio-video"] != 1 || math.Abs(s.MS-80) > 1e-9 {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"film@cpu0 mixed", "film@cpu0 uniform"} {
		if _, err := (&checkpoints.Store{Path: store}).GetTable(name); err != nil {
			t.Error(err)
		}
	}
}

// TestTableShowsMemory: of a strategy what its largest combination needs, where the scenario says so of
// all.
func TestTableShowsMemory(t *testing.T) {
	path := write(t, "film.yaml", film)
	some := strings.Replace(film, "{1: 20, 16: 320}", "{1: 20, 16: 320}, memory: 10MiB", 1)
	all := strings.NewReplacer("{1: 30, 16: 480}", "{1: 30, 16: 480}, memory: 25MiB", "{1: 60, 16: 960}", "{1: 60, 16: 960}, memory: 34MiB").Replace(some)
	for text, want := range map[string][]string{film: nil, some: nil, all: {"MIB", "10", "25", "25", "34", "34", "34"}} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		shown, err := order("table", "--scenario", path, "--size", "2", "--dry-run")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range strings.Split(shown, "\n")[1:8] {
			if words := strings.Fields(line); strings.Contains(shown, "MIB") {
				got = append(got, words[2])
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("memory %v, want %v:\n%s", got, want, shown)
		}
	}
}

// TestTableStoresNothing with --dry-run.
func TestTableStoresNothing(t *testing.T) {
	store := filepath.Join(t.TempDir(), "s.db")
	text, err := order("table", "--scenario", "mosel-tbn", "--store", store, "--dry-run")
	if err != nil || !strings.Contains(text, "tbn@gpu0") {
		t.Errorf("%s%v", text, err)
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("there is a store")
	}
}

func TestBadTables(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"--scenario tiny", "scenario tiny has no model with modalities"},
		{"--scenario mosel-tvlt --model tbn", "--model tbn: scenario mosel-tvlt has no such model with modalities; it has tvlt"},
		{"--scenario mosel-tvlt --size 17", "--size 17: the longest batch of tvlt@gpu0, and modality.table, allow jobs of at most 16"},
		{"--scenario mosel-tvlt --size -1", "--size: want a number of requests from 1 on"},
	} {
		_, err := order(append([]string{"table", "--dry-run"}, strings.Fields(c.args)...)...)
		if want := "cannot make tables of strategies: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", c.args, err, want)
		}
	}
}

// TestPlanOfAScenario: the options are those of the scenario's model.
func TestPlanOfAScenario(t *testing.T) {
	path := write(t, "queue.json", `{"jobs": [{"id": "1", "size": 2, "min_quality": 0.71, "deadline": 85}]}`)
	text, err := order("plan", "--in", path, "--scenario", write(t, "film.yaml", film))
	var p plannedModality
	if err != nil || json.Unmarshal([]byte(text), &p) != nil || len(p.Jobs) != 1 || p.Jobs[0].Strategy["film-audio"] != 1 || p.Jobs[0].Strategy["film-audio-video"] != 1 {
		t.Errorf("%s%v", text, err)
	}
	for _, c := range []struct{ args, want string }{
		{"--scenario mosel-tvlt --model tbn", `scenario mosel-tvlt has no combinations of modalities with --model tbn`},
		{"--scenario tiny", `scenario tiny has no model with modalities; want one such as mosel-tvlt`},
		{"--model tvlt", "--model, --task and --host are of a scenario; want --scenario too"},
	} {
		_, err := order(append([]string{"plan", "--in", path}, strings.Fields(c.args)...)...)
		if want := "cannot plan: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", c.args, err, want)
		}
	}
	path = write(t, "queue.json", `{"jobs": [{"id": "1", "size": 2, "min_quality": 0.81, "deadline": 40}]}`)
	if _, err := order("plan", "--in", path, "--scenario", write(t, "film.yaml", film)); err == nil || !strings.HasSuffix(err.Error(), `job "1": min_quality: 0.81 is above every option; the best has 0.8`) {
		t.Errorf("floor: %v", err)
	}
	path = write(t, "queue.json", figure2)
	if _, err := order("plan", "--in", path, "--scenario", "mosel-tvlt"); err == nil || !strings.HasSuffix(err.Error(), "options: they are those of the scenario's model; want no list here, or no --scenario") {
		t.Errorf("options in both: %v", err)
	}
}
