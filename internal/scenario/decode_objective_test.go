package scenario_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
)

// aimed is the least scenario with lines in the training section.
func aimed(t testing.TB, lines string) string {
	return minimal(t, "training:\n", "training:\n"+lines)
}

// An objective is a word or a mapping, which mean the same and are written as the word.
func TestObjectives(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                "utility",
		"  objective: utility\n":                          "utility",
		"  objective: near-peak\n":                        "near-peak",
		"  objective: 'near-peak'\n":                      "near-peak",
		"  objective: power:8\n":                          "power:8",
		"  objective: {power: 8}\n":                       "power:8",
		"  objective:\n    power: 0.5\n":                  "power:0.5",
		"  objective: windows:0.98,20\n":                  "windows:0.98,20",
		"  objective: 'windows:0.98, 20'\n":               "windows:0.98,20",
		"  objective: {windows: {share: 0.98, of: 20}}\n": "windows:0.98,20",
		"  objective:\n    windows:\n      of: 2\n      share: 1 # all\n": "windows:1,2",
	} {
		s := parse(t, aimed(t, text))
		if got := s.Training.Objective.String(); got != want {
			t.Errorf("%q is the objective %s, want %s", text, got, want)
		}
		written, err := yaml.Marshal(s.Training)
		if err != nil {
			t.Fatal(err)
		}
		var again scenario.Training
		if err := yaml.Unmarshal(written, &again); err != nil || again.Objective != s.Training.Objective {
			t.Errorf("%q is read back as %s: %v", text, again.Objective, err)
		}
		if has := strings.Contains(string(written), "objective:"); has != (s.Training.Objective != evaluation.MeanUtility) {
			t.Errorf("%q is written as\n%s", text, written)
		}
	}
}

func TestObjectiveFaults(t *testing.T) {
	const forms = "want an objective: utility, near-peak, power:P or windows:SHARE,N, or {power: P} or {windows: {share: SHARE, of: N}}, found "
	for text, want := range map[string]string{
		"objective: near_peak":                               `f:42: training.objective: unknown objective "near_peak"; did you mean "near-peak"?`,
		"objective: speed":                                   `f:42: training.objective: unknown objective "speed"; want utility, near-peak, power:P or windows:SHARE,N`,
		"objective: power:x":                                 `f:42: training.objective: power:x: want a number after power:, such as power:8, found "x"`,
		"objective: windows:0.98":                            "f:42: training.objective: windows:0.98: want a share and a number of requests, such as windows:0.98,20; several shares at once are near-peak",
		"objective:":                                         "f:42: training.objective: " + forms + "nothing",
		"objective: ''":                                      "f:42: training.objective: " + forms + `the quoted text ""`,
		"objective: [power, 8]":                              "f:42: training.objective: " + forms + "a list",
		"objective: {}":                                      "f:42: training.objective: " + forms + "a mapping",
		"objective: {pover: 8}":                              `f:42: training.objective.pover: unknown key; did you mean "power"?`,
		"objective: {speed: 8}":                              "f:42: training.objective.speed: unknown key; known here: power, windows",
		"objective: {power: high}":                           `f:42: training.objective.power: want a number, found "high"`,
		"objective: {power: 0}":                              "f:42: training.objective.power: power 0; want above 0 and at most 1000, such as 8",
		"objective: {windows: 20}":                           "f:42: training.objective.windows: want a mapping, found 20",
		"objective: {windows: {of: 9}}":                      "f:42: training.objective.windows.share: missing; it has no default",
		"objective: {windows: {share: 0.9, of: 9, size: 1}}": "f:42: training.objective.windows.size: unknown key; known here: share, of",
		"objective:\n    windows:\n      share: 98\n      of: 1": `f:44: training.objective.windows.share: share 98 of the peak; want above 0 and at most 1, such as 0.98
f:45: training.objective.windows.of: windows of 1 requests; want 2 to 64`,
		"objective:\n    power: 8\n    windows: {share: 0.98, of: 20}": "f:42: training.objective: has both power, on line 43, and windows, on line 44; an objective is one of them",
		"objective: utility\n  objective: near-peak":                   "f:43: training.objective: duplicate key; the first is on line 42",
		"objektive: utility": `f:42: training.objektive: unknown key; did you mean "objective"?`,
	} {
		_, err := scenario.Parse("f", []byte(aimed(t, "  "+text+"\n")))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n%v\nwant\n%s", text, err, want)
		}
	}
}
