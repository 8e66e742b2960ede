// Package scenario reads the one YAML file that drives every command: tasks,
// variants, hosts, replicas, profiles, engine, workload, evaluation, training
// and serving. It composes the sections of the packages that own them, decodes
// strictly, and reports every fault of a file at once, with file, line and key.
// What a file describes it makes: the fleet, its simulation, workloads and rules.
// A Scenario is read-only once parsed. docs/scenario.md describes the file.
package scenario

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"gearshift/env/engine"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario/labelled"
	"gearshift/internal/scenario/slots"
	"gearshift/rl"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/placement/layouts"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// Scenario is a whole file. Its keys are the yaml tags; a key that is not
// tagged omitempty and has no default is required.
type Scenario struct {
	Name     string         `yaml:"name,omitempty"` // default: that of the file
	Tasks    []Task         `yaml:"tasks"`
	Variants []Variant      `yaml:"variants"` // from the quickest to the best
	Hosts    []Host         `yaml:"hosts"`
	Replicas []Placement    `yaml:"replicas"`
	Models   []LatencyModel `yaml:"profiles"`
	// Weights are the models that can be loaded.
	Weights []Model `yaml:"models,omitempty"`

	Engine engine.Config `yaml:"engine"`
	// Workload is what a request looks like; when requests arrive is an
	// argument of commands. Its mix names every task, and its lengths fit every replica.
	Workload   workloads.Shape `yaml:"workload"`
	Evaluation Evaluation      `yaml:"evaluation"`
	Training   Training        `yaml:"training,omitempty"`
	Serving    Serving         `yaml:"serving"`

	unbounded struct{ prompt, output bool } // in the file; see bound
	assumed   assumed
	alone     bool // one variant's replicas stand alone, and nothing else is there to be loaded
	failing   bool // the file has the section failover
	checked   bool // replicas that take turns with others are among them
	rolling   bool // the file has the section rollout
	plans     bool // the file has the section modality

	prompts *labelled.Prompts // nil without any
	digest  string            // of their file; empty of a set that is built in

	templates map[string][]string // hosts of slots, by their template

	sections []registered
	kept     map[string]any // the values of sections without a field, by key; see Of
	// Served is AsServed for this run of a command, which is not the file's business.
	Served bool `yaml:"-"`
	// Chooser, if not nil, makes what decides about layouts in place of the rule of serving.placement, for each
	// simulated episode or router.
	Chooser func() layouts.Rule `yaml:"-"`
}

// Variant is one way to answer a task: a model size, or a subset of a model's inputs.
type Variant struct {
	Name string `yaml:"name"`
	// Model names what is loaded for it, of Scenario.Weights.
	Model string `yaml:"model,omitempty"`
	// Modalities are those of the model's inputs that it uses.
	Modalities []string `yaml:"modalities,flow,omitempty"`
	// ImageDetail is how images are read, low or as the request says.
	ImageDetail string `yaml:"image_detail,omitempty"`
	// ScoresAs is its name in scores of prompts. Empty: its own.
	ScoresAs string `yaml:"scores_as,omitempty"`
}

// LowDetail is the value of [Variant.ImageDetail] that is not the request's own.
const LowDetail = "low"

// Model is weights that can be loaded; see [fleet.Model].
type Model struct {
	Name   string  `yaml:"name"`
	Memory Bytes   `yaml:"memory"`
	LoadMS float64 `yaml:"load_ms,omitempty"`
	// SleepMS and WakeMS are a twentieth of LoadMS where they are left out. FirstAnswerMS is the time
	// that the first step after a load or a wake takes in addition.
	SleepMS       float64 `yaml:"sleep_ms,omitempty"`
	WakeMS        float64 `yaml:"wake_ms,omitempty"`
	FirstAnswerMS float64 `yaml:"first_answer_ms,omitempty"`
	Version       string  `yaml:"version,omitempty"`
	// RealTime says that it is updated while it serves: its versions do not replace each other.
	RealTime bool `yaml:"real_time,omitempty"`
	// Modalities are its inputs, of which each subset can be a variant.
	Modalities []string `yaml:"modalities,flow,omitempty"`
}

// Host is a GPU or machine that variants share.
type Host struct {
	Name   string `yaml:"name"`
	Memory Bytes  `yaml:"memory"`
	// Site is what it fails together with.
	Site string `yaml:"site,omitempty"`
	// Compute is in teraflops, Bandwidth that of its memory in GB/s.
	Compute   float64 `yaml:"compute,omitempty"`
	Bandwidth float64 `yaml:"bandwidth,omitempty"`
	// Slowdown is how the simulated host's pace changes.
	Slowdown *Slowdown `yaml:"slowdown,flow,omitempty"`
}

// Slowdown is that of [engine.Slowdown].
type Slowdown struct {
	Min   float64 `yaml:"min"`
	Max   float64 `yaml:"max"`
	MeanS float64 `yaml:"mean_s"`
}

// Placement is one replica of a variant on each of the hosts, or in each of its slots. For a model with modalities
// it covers all variants, which then share one engine on a host.
type Placement struct {
	// Name stands in the place of the variant in the names of its replicas, NAME@HOST, so that a
	// variant may stand on a host more than once.
	Name    string   `yaml:"name,omitempty"`
	Variant string   `yaml:"variant"`
	Model   string   `yaml:"model,omitempty"`
	Hosts   []string `yaml:"hosts,flow"`
	Memory  Memory   `yaml:"memory"`
	// State is that of the replicas at the start: up, which is the default, cold or warm.
	State string `yaml:"state,omitempty"`
	// Template replaces the hosts where engines come and go.
	slots.Template `yaml:",inline"`
}

// LatencyModel is the profile of a variant on some hosts.
type LatencyModel struct {
	Variant         string   `yaml:"variant"`
	Hosts           []string `yaml:"hosts,flow,omitempty"` // empty: every host
	profile.Profile `yaml:",inline"`
	// BatchMS is the time of a batch in ms by its size, and Kinds by the kind of input too:
	// either stands in the place of the times by token. See [profile.Batches].
	BatchMS map[string]float64            `yaml:"batch_ms,flow,omitempty"`
	Kinds   map[string]map[string]float64 `yaml:"kinds,flow,omitempty"`
	// Memory is what a combination of modalities takes alone; zero is that of its model.
	Memory Bytes `yaml:"memory,omitempty"`
}

// Evaluation is how policies are judged.
type Evaluation struct {
	StaticMemory Share     `yaml:"static_memory"` // of each host, for a static policy (LBE-18)
	Requests     int       `yaml:"requests"`      // in a run of an unstable workload
	PhaseS       float64   `yaml:"phase_s"`       // of the stable workload, in seconds
	StableRates  []float64 `yaml:"stable_rates,flow"`
	// RateScale is how many times as fast as in the paper the workloads run
	// whose rates are the paper's; see [workloads.Scaled].
	RateScale Scale `yaml:"rate_scale,omitempty"`
	// Rules are references to the best rules known for the scenario, which a
	// policy must beat to be promoted; gearshift eval --tune finds them.
	Rules []string `yaml:"rules,omitempty"`
	// RulesFor lists those for objectives other than utility, the best first, by the
	// objective; see [Scenario.RulesFor].
	RulesFor map[string][]string `yaml:"rules_for,omitempty"`
}

// Training is what a policy sees and how it learns.
type Training struct {
	// Objective is what policies are trained, tuned and judged for.
	Objective evaluation.Objective `yaml:"objective,omitempty"`
	// AsServed has requests wait, be degraded and be refused in the simulator as the router
	// does it, by its serving section: where policies are trained, tuned and judged.
	AsServed bool `yaml:"as_served,omitempty"`
	// Observation and Load follow from the fleet where they are left out.
	Observation []observation.Feature `yaml:"observation,omitempty"`
	// Candidate is that of the preset in use; see [Scenario.Trained].
	Candidate []observation.Feature `yaml:"-"`
	Load      workloads.Load        `yaml:"load,omitempty"`
	// PresetsFrom names a built-in scenario that lends its presets, except
	// those with an observation or load of their own.
	PresetsFrom string            `yaml:"presets_from,omitempty"`
	Presets     map[string]Preset `yaml:"presets,omitempty"`
}

// Preset is the settings of one way to train.
type Preset struct {
	rl.Config `yaml:",inline"`
	// Observation and Load, where given, stand in for those of the section.
	Observation []observation.Feature `yaml:"observation,omitempty" json:"observation,omitempty"`
	Load        workloads.Load        `yaml:"load,omitempty" json:"load,omitzero"`
	// Candidate features make a policy that values the replicas one by one and
	// chooses among them; without, it chooses a variant.
	Candidate []observation.Feature `yaml:"candidate,omitempty" json:"candidate,omitempty"`
}

func (s *Scenario) defaults() {
	s.Engine = engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 2560, MaxSequences: 256, BlockTokens: 16}
	s.Workload.Mix = workloads.Mix{} // all tasks alike
	s.Serving.defaults()
	for _, d := range s.sections {
		if !d.kept() {
			d.begin(s)
		}
	}
}

// Load reads a built-in scenario by name, or a file by path. A built-in name
// comes first; "./name" is always a file. The faults of a file are [Faults].
func Load(ref string) (*Scenario, error) {
	s, _, err := LoadText(ref)
	return s, err
}

// LoadText returns the scenario as [Load] does, and its text.
func LoadText(ref string) (*Scenario, []byte, error) {
	text, err := Text(ref)
	if err != nil {
		return nil, nil, err
	}
	s, err := Parse(fileName(ref), text)
	return s, text, err
}

// fileName returns what faults call the file of a reference.
func fileName(ref string) string {
	if slices.Contains(workloads.ScenarioNames(), ref) {
		return ref + ".yaml"
	}
	return ref
}

// Text returns what [Load] reads: the text of a scenario that is built in, or of a file.
func Text(ref string) ([]byte, error) {
	names := workloads.ScenarioNames()
	if slices.Contains(names, ref) {
		return workloads.Scenario(ref)
	}
	text, err := os.ReadFile(ref)
	switch {
	case errors.Is(err, os.ErrNotExist):
		guess := ""
		if name := closest(ref, names); name != "" {
			guess = fmt.Sprintf("; did you mean %q?", name)
		}
		builtIn := guess + "; built in are " + strings.Join(names, ", ")
		if strings.ContainsAny(ref, "./") { // a file is meant
			return nil, fmt.Errorf("there is no scenario file %q%s", ref, builtIn)
		}
		return nil, fmt.Errorf("unknown scenario %q%s, and the path of a file works too", ref, builtIn)
	case errors.Is(err, syscall.EISDIR):
		return nil, fmt.Errorf("cannot read scenario: %s is a directory; want a file, or a built-in: %s", ref, strings.Join(names, ", "))
	case err != nil:
		return nil, fmt.Errorf("cannot read scenario: %w", err)
	}
	return text, nil
}

// Parse reads and checks a scenario. The name stands for the file in faults.
// An error is of type [Faults] and holds all of them, by line.
func Parse(name string, data []byte) (*Scenario, error) {
	s, r, err := parse(name, data)
	if err == nil {
		err = s.refuseDrawn(r)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// parse is [Parse] with what is known of the file's lines.
func parse(name string, data []byte) (*Scenario, *report, error) {
	return parseWith(sections(), name, data)
}

// parseWith is parse of a file that has these sections besides the core's.
func parseWith(list []registered, name string, data []byte) (*Scenario, *report, error) {
	s := new(Scenario)
	s.register(list)
	s.defaults()
	r := newReport(name)
	decode(r, data, s)
	s.expandSlots(r)
	s.subsets()
	s.takeTurns(r)
	s.leftOut(r)
	s.borrow()
	check(r, s)
	if err := r.err(); err != nil || s.drawn() != nil {
		return s, r, err
	}
	s.checked = true
	s.fillMix()
	s.shareUpstreams()
	s.bound()
	s.assume()
	return s, r, nil
}

// advised reports whether the observation gives advice, as the one that is assumed does.
func (s *Scenario) advised() bool {
	features := s.Training.Observation
	return s.assumed.observation || len(features) > 0 && features[0].Kind == observation.Advice
}

// general reports whether the preset suits any fleet.
func (p *Preset) general() bool { return len(p.Observation) == 0 && p.Load == (workloads.Load{}) }

// leaveOut takes out what says the default where a key left out is told from one that
// is written, and what the simulation does not include.
func (s *Scenario) leaveOut() {
	if s.Training.Load.MinPhaseRequests == workloads.DefaultPhaseRequests {
		s.Training.Load.MinPhaseRequests = 0
	}
	s.Replicas = slices.Clone(s.Replicas)
	for i := range s.Replicas {
		if r := &s.Replicas[i]; r.State == fleet.Up.String() {
			r.State = ""
		}
		s.Replicas[i].Template = slots.Template{} // the hosts replace it
	}
	s.Models = slices.Clone(s.Models)
	for i := range s.Models {
		m := &s.Models[i]
		m.Request = 0
		if !slices.ContainsFunc(s.hostNames(), func(host string) bool { return !m.on(host) }) {
			m.Hosts = nil
		}
	}
}

// Hash identifies the world that a policy is trained and judged in: all of the
// scenario but its name, the rules to beat, the presets (a checkpoint holds the one it used) and,
// of the serving section, all but the balancer, and request_ms of the profiles. Comments, order of keys, ways to write a number, and
// whether a default is written out do not count.
func (s *Scenario) Hash() string {
	world := *s
	world.Name = ""
	world.Training.PresetsFrom, world.Training.Presets = "", nil
	world.Training.Objective = evaluation.MeanUtility
	world.Serving = Serving{}
	world.Workload = s.declared()
	if s.digest != "" {
		world.Workload.Prompts = s.digest // wherever the file is
	}
	world.leaveOut()
	registered := map[string]any{} // by key
	for _, d := range s.sections {
		if v := d.hashed(&world); v != nil {
			registered[d.path()] = v
		}
	}
	// A key that is new in the serving section must not make another world either.
	var keys map[string]any
	b, err := yaml.Marshal(world)
	if err == nil {
		err = yaml.Unmarshal(b, &keys)
	}
	if err == nil {
		keys["serving"] = map[string]any{"balancer": s.Serving.Balancer}
		keys["name"] = "" // which may be left out of a file, and was once written in any
		for key, v := range registered {
			setKey(keys, key, v)
		}
		b, err = yaml.Marshal(keys)
	}
	if err != nil {
		panic(err) // every field is a plain value or marshals itself without error
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
