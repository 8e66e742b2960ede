package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/scenario"
)

// What is built in and what the documents have can be served: the rehearsal finds no fault with it.
func TestRehearsals(t *testing.T) {
	files, err := filepath.Glob("../../docs/scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, ref := range append(files, scenario.Fleets()...) {
		s, err := scenario.Load(ref)
		if err != nil {
			t.Fatal(err)
		}
		if key, err := Rehearse(s); err != nil {
			t.Errorf("%s: %s: %v", ref, key, err)
		}
	}
}

// A rehearsal refuses what no rule for single keys knows of, as serve does: jobs of so many combinations of
// inputs that there is no table of their strategies.
func TestARehearsalRefusesWhatServeWould(t *testing.T) {
	s := parse(t, manyModalities(6))
	key, err := Rehearse(s)
	if key != "models" || err == nil || !strings.Contains(err.Error(), "table of strategies") {
		t.Errorf("%q, %v", key, err)
	}
	if key, err := Rehearse(parse(t, manyModalities(3))); err != nil {
		t.Errorf("%q, %v", key, err)
	}
}

// manyModalities describes a model of n modalities, every combination of which answers two tasks.
func manyModalities(n int) string {
	var names, quality, variants, profiles []string
	for i := range n {
		names = append(names, fmt.Sprintf("m%d", i))
	}
	for set := 1; set < 1<<n; set++ {
		var in []string
		for i, name := range names {
			if set>>i&1 == 1 {
				in = append(in, name)
			}
		}
		v := "v" + strings.Join(in, "")
		quality = append(quality, fmt.Sprintf("%s: 0.%03d", v, 300+7*set))
		variants = append(variants, fmt.Sprintf("  - {name: %s, model: film, modalities: [%s]}", v, strings.Join(in, ", ")))
		profiles = append(profiles, fmt.Sprintf("  - {variant: %s, batch_ms: {1: %d, 16: %d}}", v, 10+set*set%97, 100+13*set))
	}
	tasks := ""
	for _, task := range []string{"film", "songs"} {
		tasks += fmt.Sprintf("  - {name: %s, total_ms: 1000, quality: {%s}}\n", task, strings.Join(quality, ", "))
	}
	return "tasks:\n" + tasks + "models: [{name: film, memory: 40MiB, modalities: [" + strings.Join(names, ", ") + "]}]\nvariants:\n" +
		strings.Join(variants, "\n") + "\nhosts: [{name: cpu0, memory: 2GiB}]\nreplicas: [{model: film, hosts: [cpu0], memory: 20%}]\nprofiles:\n" +
		strings.Join(profiles, "\n") + "\nworkload: {output_tokens: {distribution: none}}\n"
}
