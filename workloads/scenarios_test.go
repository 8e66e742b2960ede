package workloads

import (
	"bytes"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"gearshift/router/fleet"
)

// The built-in scenarios' own sections of this package decode and are valid.
func TestScenarios(t *testing.T) {
	if names := ScenarioNames(); !slices.Equal(names, []string{"a100-modern", "cpu-three", "faillite-large", "faillite-testbed", "five-sizes", "mosel-av-hubert", "mosel-mmsa", "mosel-tbn", "mosel-tvlt", "mosel-vilt", "prompts-three", "tiny", "titan-rtx-opt"}) {
		t.Errorf("built in are %v", names)
	}
	for _, name := range ScenarioNames() {
		if name == "faillite-large" { // which draws its fleet, and trains nothing
			continue
		}
		text, err := Scenario(name)
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Name     string
			Tasks    []struct{ Name string }
			Workload Shape
			Training struct{ Load Load }
		}
		if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Name != name {
			t.Errorf("%s calls itself %q", name, s.Name)
		}
		var tasks []fleet.Task
		for _, task := range s.Tasks {
			tasks = append(tasks, fleet.Task{Name: task.Name})
		}
		process, err := NewRandomSwitching(s.Training.Load)
		if err != nil {
			t.Errorf("%s: training.load: %v", name, err)
			continue
		}
		if _, err := New(process, tasks, s.Workload, Seed(Training, 1), Limit{}); err != nil {
			t.Errorf("%s: workload: %v", name, err)
		}
	}
}

func TestUnknownScenario(t *testing.T) {
	_, err := Scenario("huge")
	if want := `unknown scenario "huge"; built in: a100-modern, cpu-three, faillite-large, faillite-testbed, five-sizes, mosel-av-hubert, mosel-mmsa, mosel-tbn, mosel-tvlt, mosel-vilt, prompts-three, tiny, titan-rtx-opt`; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
	for _, name := range []string{"", "../scenarios/tiny", "tiny.yaml"} {
		if _, err := Scenario(name); err == nil {
			t.Errorf("%q is a scenario", name)
		}
	}
}
