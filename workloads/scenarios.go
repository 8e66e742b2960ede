package workloads

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Scenarios holds the built-in scenarios as scenarios/NAME.yaml.
//
//go:embed scenarios/*.yaml
var Scenarios embed.FS

// ScenarioNames lists the built-in scenarios, sorted.
func ScenarioNames() []string {
	files, err := fs.Glob(Scenarios, "scenarios/*.yaml")
	if err != nil {
		panic("workloads: " + err.Error()) // only for a malformed pattern
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".yaml")
	}
	return files
}

// Scenario returns the text of a built-in scenario. The error lists the known names.
func Scenario(name string) ([]byte, error) {
	if !slices.Contains(ScenarioNames(), name) {
		return nil, fmt.Errorf("unknown scenario %q; built in: %s", name, strings.Join(ScenarioNames(), ", "))
	}
	return Scenarios.ReadFile("scenarios/" + name + ".yaml")
}
