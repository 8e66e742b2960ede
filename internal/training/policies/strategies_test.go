package policies

import (
	"path/filepath"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router/modality"
)

const film = `
tasks:
  - {name: film, total_ms: 1000, quality: {film-audio: 0.67, film-video: 0.70, film-audio-video: 0.80}}
  - {name: songs, total_ms: 1000, quality: {film-audio: 0.5}}
models:
  - {name: film, memory: 40MiB, modalities: [audio, video]}
hosts: [{name: cpu0, memory: 2GiB}, {name: cpu1, memory: 2GiB}]
replicas: [{model: film, hosts: [cpu0, cpu1], memory: 20%}]
profiles:
  - {variant: film-audio, batch_ms: {1: 20, 16: 320}}
  - {variant: film-video, batch_ms: {1: 30, 16: 480}}
  - {variant: film-audio-video, batch_ms: {1: 60, 16: 960}}
modality: {table: 5}
`

func tables(t *testing.T, text string) []StrategyTable {
	t.Helper()
	s, err := scenario.Parse("film.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return StrategyTables(s, modality.Mixed)
}

// TestAll: a table for each engine, of the options of all tasks, as far as the scenario says.
func TestAll(t *testing.T) {
	list := tables(t, film)
	if len(list) != 2 || list[1].Name() != "film@cpu1 mixed" || list[0].Size != 5 {
		t.Fatalf("%+v", list)
	}
	var names []string
	for _, o := range list[0].Options {
		names = append(names, o.Name)
	}
	if got, want := strings.Join(names, ", "), "film-audio for film, film-video for film, film-audio-video for film, film-audio for songs"; got != want {
		t.Errorf("options %s, want %s", got, want)
	}
	if list := tables(t, strings.Replace(film, "table: 5", "table: 500", 1)); list[0].Size != 16 {
		t.Errorf("size %d, want that of the longest batch", list[0].Size)
	}
}

// TestGet: what is stored comes back until a time or a quality is another; then a line says so,
// and the table is made again.
func TestGet(t *testing.T) {
	store := &checkpoints.Store{Path: filepath.Join(t.TempDir(), "s.db")}
	var lines []string
	notice := func(line string) { lines = append(lines, line) }
	of := tables(t, film)[0]
	made, stored, err := of.Get(store, notice)
	if err != nil || stored || len(lines) > 0 {
		t.Fatalf("without a store: %t, %v, %v", stored, lines, err)
	}
	if err := of.Put(store, made); err != nil {
		t.Fatal(err)
	}
	if _, stored, err := of.Get(store, notice); err != nil || !stored || len(lines) > 0 {
		t.Errorf("once stored: %t, %v, %v", stored, lines, err)
	}
	for _, change := range []struct{ from, to string }{{"0.67", "0.68"}, {"1: 30", "1: 29"}, {"table: 5", "table: 6"}} {
		lines = nil
		of := tables(t, strings.Replace(film, change.from, change.to, 1))[0]
		table, stored, err := of.Get(store, notice)
		if err != nil || stored || table.Sizes() != of.Size {
			t.Errorf("with %s: %t, %v", change.to, stored, err)
		}
		if want := `table of strategies "film@cpu0 mixed": the one in the store is of other profiles, qualities or sizes; gearshift modality table stores a new one; it is made again`; len(lines) != 1 || lines[0] != want {
			t.Errorf("with %s: %q", change.to, lines)
		}
	}
}
