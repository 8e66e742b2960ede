package scenario_test

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gearshift/env"
	"gearshift/internal/scenario"
	"gearshift/router/observation"
	"gearshift/workloads"
)

// least is testdata/minimal.yaml with nothing but what has no default, and what is added.
func least(t *testing.T, added ...string) string {
	t.Helper()
	text := minimal(t, "name: minimal\n", "")
	text = text[:strings.Index(text, "workload:")]
	return text + strings.Join(added, "")
}

// without is a built-in scenario's text without the sections.
func without(t *testing.T, name string, sections ...string) string {
	t.Helper()
	text, err := workloads.Scenario(name)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	root := doc.Content[0]
	for i := 0; i < len(root.Content); i += 2 {
		if slices.Contains(sections, root.Content[i].Value) {
			root.Content = slices.Delete(root.Content, i, i+2)
			i -= 2
		}
	}
	if text, err = yaml.Marshal(&doc); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Tasks, variants, hosts, replicas and profiles are enough to simulate, judge and train.
func TestFiveSectionsAreEnough(t *testing.T) {
	s := parse(t, least(t))
	if s.Name != "test" { // of test.yaml
		t.Errorf("name %q", s.Name)
	}
	if got := slices.Sorted(maps.Keys(s.Training.Presets)); !slices.Equal(got, []string{"default", "quick"}) {
		t.Errorf("presets %q", got)
	}
	if got := s.Spec().Advice(); got != "slackfit" {
		t.Errorf("advised by %q", got)
	}
	if _, err := workloads.NewRandomSwitching(s.Training.Load); err != nil {
		t.Error(err)
	}
	rate := s.FleetRate()
	if l := s.Training.Load; l.MaxRate < rate || l.MaxRate > 2*rate || l.MinRate > rate/50 {
		t.Errorf("load of %v to %v per second for a fleet that answers %v", l.MinRate, l.MaxRate, rate)
	}
	config, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Evaluated([]string{"u1", "stable"}, 200)
	if err != nil {
		t.Fatal(err)
	}
	config.Open = list[0].Open
	maker, err := s.Maker(config.Table)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := maker.Parse("slackfit")
	if err != nil {
		t.Fatal(err)
	}
	if config.Encoder, err = observation.NewEncoder(s.Spec(), config.Table, rule); err != nil {
		t.Fatal(err)
	}
	e, err := env.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reset(1); err != nil {
		t.Error(err)
	}
}

// What is assumed for the paper's fleet is what its scenario says, but for the numbers
// that are someone's choice; and it is the same whether written out or left out.
func TestAssumedForThePapersFleet(t *testing.T) {
	want := load(t, "titan-rtx-opt")
	got := parse(t, without(t, "titan-rtx-opt", "training"))
	if got.Evaluation.RateScale != 1 || !slices.Equal(got.Evaluation.StableRates, want.Evaluation.StableRates) {
		t.Errorf("rates %v, times %v", got.Evaluation.StableRates, got.Evaluation.RateScale)
	}
	for _, preset := range []string{"quick", "default"} {
		if g, w := got.Training.Presets[preset], want.Training.Presets[preset]; g.AdviceMargin != w.AdviceMargin || g.Decisions != w.Decisions {
			t.Errorf("preset %s: %+v, want %+v", preset, g, w)
		}
	}
	if advice := got.Spec().Advice(); advice != want.Spec().Advice() {
		t.Errorf("advised by %q, want the first rule of the evaluation", advice)
	}
	if l := got.Training.Load; l.MaxRate < 50 || l.MaxRate > 75 {
		t.Errorf("rates up to %v, want about 60", l.MaxRate)
	}
	out, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	again, err := scenario.Parse("again.yaml", out)
	if err != nil {
		t.Fatal(err)
	}
	if again.Hash() != got.Hash() || again.Spec().Hash() != got.Spec().Hash() {
		t.Error("what is left out and what is written out are two worlds")
	}
}

// Where no rule is listed, one that needs no tuning routes, unless the balancer has to choose the replica.
func TestFallbackWithoutRules(t *testing.T) {
	for section, want := range map[string]string{
		"":                                  "universal",
		"serving: {balancer: least-harm}\n": "universal",
		"serving: {balancer: prequal}\n":    "slackfit",
		"serving: {affinity: {header: x-session}}\n":                      "slackfit",
		"evaluation: {rules: ['threshold:4']}\n":                          "threshold:4",
		"evaluation: {rules: [priced]}\nserving: {fallback: threshold}\n": "threshold",
	} {
		if s := parse(t, least(t, section)); s.Serving.Fallback != want {
			t.Errorf("%q: falls back to %q, want %q", section, s.Serving.Fallback, want)
		}
	}
}

// Each part stands alone: what is written holds, the rest follows from the fleet.
func TestPartsOfTrainingLeftOut(t *testing.T) {
	load := "  load: {min_rate: 1, max_rate: 8, uniform_share: 0.5, min_phase_s: 5, max_phase_s: 20}\n"
	plain := "  observation: [{kind: task-one-hot}, {kind: in-flight, scale: [10, 5]}]\n"
	for name, c := range map[string]struct {
		section string
		check   func(*scenario.Scenario) bool
	}{
		"load alone": {load, func(s *scenario.Scenario) bool {
			return s.Training.Load.MaxRate == 8 && s.Evaluation.RateScale == 1 && s.Spec().Advice() == "slackfit"
		}},
		// The presets depart from a rule, which this observation has not.
		"an observation without advice": {plain, func(s *scenario.Scenario) bool {
			return s.Spec().Advice() == "" && s.Training.Presets["quick"].AdviceMargin == 0
		}},
		"another's presets": {"  presets_from: tiny\n", func(s *scenario.Scenario) bool {
			return s.Training.Presets["quick"].Decisions == 6000 && s.Training.Load.MaxRate > 8
		}},
	} {
		s, err := scenario.Parse("test.yaml", []byte(least(t, "training:\n", c.section)))
		if err != nil || !c.check(s) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of a section that is there, rates of the evaluation stay what they were.
	s := parse(t, minimal(t))
	if s.Evaluation.RateScale != 1 || s.Evaluation.StableRates[0] != 0.25 {
		t.Errorf("a scenario with a load has other rates: %v, times %v", s.Evaluation.StableRates, s.Evaluation.RateScale)
	}
}

// With a predictor, a policy sees what is predicted unless the file says otherwise.
func TestPredictionsAreObserved(t *testing.T) {
	sees := func(text string) bool {
		return slices.ContainsFunc(parse(t, text).Spec().Features, func(f observation.Feature) bool { return f.Kind == observation.PredictedQuality })
	}
	if sees(least(t)) || !sees(least(t, "quality: {predictor: chat}\n")) {
		t.Error("predictions are observed without a predictor, or not with one")
	}
}

func TestEvaluationKeepsWhatItSays(t *testing.T) {
	s := parse(t, least(t, "evaluation: {rate_scale: 3, stable_rates: [1, 2], rules: ['threshold:4', slackfit]}\n"))
	if s.Evaluation.RateScale != 3 || !slices.Equal(s.Evaluation.StableRates, []float64{1, 2}) || s.Spec().Advice() != "threshold:4" {
		t.Errorf("%v %v %q", s.Evaluation.RateScale, s.Evaluation.StableRates, s.Spec().Advice())
	}
}

// The fleet's rate is about what its largest batches come to in the simulator: by the
// comment in tiny.yaml its large variant alone meets half of the deadlines at 6 per second.
func TestCapacities(t *testing.T) {
	s := load(t, "tiny")
	caps := s.Capacities(40)
	if large := caps[1]; large.Rate < 4 || large.Rate > 7 || large.Batch < 5 || large.Batch > 9 || large.Alone < 29 || large.Alone > 36 {
		t.Errorf("large: %+v", large)
	}
	if small := caps[0]; small.Batch != small.Most || small.Pace != small.MostPace || small.Most != s.Engine.MaxSequences {
		t.Errorf("small, which no batch slows to the deadline: %+v", small)
	}
	if late := s.Capacities(20)[1]; late.Batch != 0 || late.Rate != 0 {
		t.Errorf("large, which is late even alone: %+v", late)
	}
}

func TestNamesOfFiles(t *testing.T) {
	text, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "name: minimal\n", "", 1))
	for file, want := range map[string]string{"/a/mine.yaml": "mine", "my fleet (2).yml": "my-fleet-2", ".yaml": "scenario", "π": "scenario", "-": "scenario"} {
		s, err := scenario.Parse(file, text)
		if err != nil || s.Name != want {
			t.Errorf("%s: %q, %v", file, s.Name, err)
		}
	}
}

// Where the file leaves the presets out, they are for policies that choose replicas where hosts differ, or
// where no rule advises policies.
func TestAssumedPresetsChooseReplicas(t *testing.T) {
	const larger = "replicas:\n  - {variant: large, hosts: [gpu1], memory: 80%}\n"
	hosts := []string{"  - {name: gpu0, memory: 8GiB}\n", "  - {name: gpu0, memory: 8GiB}\n  - {name: gpu1, memory: 8GiB}\n", "replicas:\n", larger}
	unequal := strings.NewReplacer(hosts...).Replace(least(t))
	for what, c := range map[string]struct {
		text   string
		places bool
	}{
		"hosts differ":                {unequal, true},
		"all hosts alike":             {least(t), false},
		"no advice":                   {least(t, "training: {observation: [{kind: task-one-hot}]}\n"), true},
		"near the peak":               {unequal + "training: {objective: near-peak}\n", false},
		"engines are asked":           {unequal + "serving: {balancer: prequal}\n", false},
		"presets of another scenario": {unequal + "training: {presets_from: titan-rtx-opt}\n", false},
	} {
		s := parse(t, c.text)
		for _, name := range []string{"quick", "default"} {
			p, err := s.Preset(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Validate(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if got := s.Trained(p).Spec().Places(); got != c.places || p.DifferenceRewards != c.places {
				t.Errorf("%s: preset %s chooses replicas: %v, want %v", what, name, got, c.places)
			}
		}
	}
}

// TestCandidatesWithTheAssumedObservation: a preset whose policies choose replicas sees the assumed observation without
// its advice, which is of variants; the other presets keep it.
func TestCandidatesWithTheAssumedObservation(t *testing.T) {
	s := parse(t, minimal(t, "  observation:\n    - {kind: advice, rule: slackfit}\n    - {kind: task-one-hot}\n    - {kind: in-flight, scale: [10, 5]}\n", "",
		"      decisions: 6000\n", "      decisions: 6000\n      candidate: [{kind: estimates, rule: universal}]\n"))
	p, err := s.Preset("quick")
	if err != nil {
		t.Fatal(err)
	}
	all, seen := s.Training.Observation, s.Trained(p).Training.Observation
	if len(all) < 2 || all[0].Kind != observation.Advice || !reflect.DeepEqual(seen, all[1:]) {
		t.Errorf("with candidates %v, want all after the advice of %v", seen, all)
	}
	s.Trained(p).Spec() // which panics where the features do not go together
}
