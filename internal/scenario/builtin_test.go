package scenario_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/rl"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// card is what its datasheet says.
type card struct {
	bandwidth  float64 // bytes per second
	arithmetic float64 // dense 16-bit operations per second
}

var (
	titanRTX = card{672e9, 130e12}
	a100     = card{2039e9, 312e12}
	h100     = card{3350e9, 989e12}
)

// model is what its publisher says: parameters in all, those of an input
// embedding that is not tied to the output's, and those outside embeddings, in
// billions; layers; heads of keys and values, and their width.
type model struct {
	parameters, input, inner float64
	layers, heads, width     int
}

var published = map[string]model{
	"opt-125m":     {0.125, 0, 0.085, 12, 12, 64},
	"opt-1.3b":     {1.315, 0, 1.21, 24, 32, 64},
	"opt-6.7b":     {6.65, 0, 6.44, 32, 32, 128},
	"llama-3.2-1b": {1.236, 0, 0.973, 16, 8, 64},
	"llama-3.2-3b": {3.213, 0, 2.819, 28, 8, 128},
	"llama-3.1-8b": {8.030, 0.525, 6.980, 32, 8, 128},
	"qwen2.5-0.5b": {0.494, 0, 0.358, 24, 2, 64},
	"qwen2.5-1.5b": {1.544, 0, 1.31, 28, 2, 128},
	"qwen2.5-3b":   {3.086, 0, 2.77, 36, 2, 128},
	"qwen2.5-7b":   {7.616, 0.545, 6.53, 28, 4, 128},
	"qwen2.5-14b":  {14.77, 0.779, 13.2, 48, 8, 128},
}

var cards = map[string]card{"titan-rtx-opt": titanRTX, "a100-modern": a100, "five-sizes": h100}

const bytesPerWeight = 2 // float16 or bfloat16

// No profile is faster than the card: weights and caches are read at less than
// its bandwidth, and a long prompt computed at less than its arithmetic.
func TestProfilesKeepToTheCard(t *testing.T) {
	for name, card := range cards {
		for variant, p := range models(t, name) {
			m := published[variant]
			read := (m.parameters - m.input) * 1e9 * bytesPerWeight / card.bandwidth * 1e3
			if got := p.GPU(1, 0); got < read {
				t.Errorf("%s: %s reads its weights in %.3f ms, the card not in less than %.3f", name, variant, got, read)
			}
			if got, floor := p.Context, float64(p.KVBytes)/card.bandwidth*1e3; got < floor {
				t.Errorf("%s: %s reads a cached token in %v ms, the card not in less than %v", name, variant, got, floor)
			}
			if got, floor := p.GPU(2048, 0), 2048*2*m.inner*1e9/card.arithmetic*1e3; got < floor {
				t.Errorf("%s: %s computes 2,048 tokens in %.1f ms, the card not in less than %.1f", name, variant, got, floor)
			}
		}
	}
}

// What a model's publisher says of it gives the memory that its profile takes:
// two bytes a weight, and keys and values for each layer and head.
func TestProfilesTakeThePublishedMemory(t *testing.T) {
	for name := range cards {
		for variant, p := range models(t, name) {
			m := published[variant]
			if got, want := float64(p.WeightBytes), m.parameters*1e9*bytesPerWeight; math.Abs(got/want-1) > 0.005 {
				t.Errorf("%s: %s has %v bytes of weights, want %v", name, variant, got, want)
			}
			if got, want := p.KVBytes, int64(m.layers*m.heads*m.width*2*bytesPerWeight); got != want {
				t.Errorf("%s: %s caches %d bytes a token, want %d", name, variant, got, want)
			}
		}
	}
}

// The profiles of the newer scenarios are their documents' formulas, to the
// digits written.
func TestProfilesFollowFromTheFormulas(t *testing.T) {
	const reads, computes, launch = 0.685, 0.5, 0.05
	for _, name := range []string{"a100-modern", "five-sizes"} {
		card := cards[name]
		for variant, p := range models(t, name) {
			m := published[variant]
			for what, x := range map[string]struct{ got, want float64 }{
				"launch_floor_ms":  {p.LaunchFloor, launch * float64(m.layers)},
				"weights_ms":       {p.Weights, (m.parameters - m.input) * 1e12 * bytesPerWeight / (reads * card.bandwidth)},
				"token_ms":         {p.Token, 2 * m.inner * 1e12 / (computes * card.arithmetic)},
				"context_token_ms": {p.Context, float64(p.KVBytes) * 1e3 / (reads * card.bandwidth)},
			} {
				if math.Abs(x.got/x.want-1) > 0.0006 {
					t.Errorf("%s: %s: %s is %v, the formula gives %v", name, variant, what, x.got, x.want)
				}
			}
		}
	}
}

// Side by side, the engines of a host together do not read more than the card
// can: each at its efficiency, slowed by the others' full duty.
func TestNeighboursShareTheBandwidth(t *testing.T) {
	for _, name := range []string{"a100-modern", "five-sizes"} {
		card := cards[name]
		all := models(t, name)
		var sum float64
		for variant, p := range all {
			bytes := (published[variant].parameters - published[variant].input) * 1e9 * bytesPerWeight
			slowed := p.Weights * (1 + p.Contention*float64(len(all)-1))
			sum += bytes / (slowed / 1e3)
		}
		if sum > card.bandwidth {
			t.Errorf("%s: together they read %.0f GB/s, the card %.0f", name, sum/1e9, card.bandwidth/1e9)
		}
	}
}

// Qualities are the published scores relative to the largest model's, to two
// digits.
func TestQualitiesAreThePublishedScores(t *testing.T) {
	for name, scores := range map[string]map[string][]float64{
		"a100-modern": {
			"chat":         {59.5, 77.4, 80.4}, // IFEval
			"reasoning":    {59.4, 78.6, 83.4}, // ARC-C
			"math":         {44.4, 77.7, 84.5}, // GSM8K
			"multilingual": {24.5, 58.2, 68.9}, // MGSM
		},
		"five-sizes": {
			"chat":      {27.9, 42.5, 58.2, 71.2, 81.0}, // IFEval
			"code":      {49.6, 63.2, 72.7, 79.2, 82.0}, // MBPP
			"math":      {49.6, 73.2, 86.7, 91.6, 94.8}, // GSM8K
			"knowledge": {24.1, 50.7, 64.4, 75.4, 80.0}, // MMLU-redux
		},
	} {
		s := load(t, name)
		for _, task := range s.Table().Tasks {
			row := scores[task.Name]
			if len(row) != len(task.Quality) {
				t.Errorf("%s: %d scores for %s", name, len(row), task.Name)
				continue
			}
			for v, quality := range task.Quality {
				if want := row[v] / row[len(row)-1]; math.Abs(quality-want) > 0.00501 {
					t.Errorf("%s: %s by %s is worth %v, the scores say %.4f", name, task.Name, s.Variants[v].Name, quality, want)
				}
			}
		}
	}
}

// Every built-in scenario can be trained by both presets at once; those that are
// not titan-rtx-opt have its very settings, so that nothing is tuned to them.
func TestPresetsOfBuiltIns(t *testing.T) {
	titan := load(t, "titan-rtx-opt").Training.Presets
	for _, name := range []string{"a100-modern", "five-sizes"} {
		presets := load(t, name).Training.Presets
		for _, preset := range []string{"quick", "default"} {
			got, ok := presets[preset]
			if !ok || !reflect.DeepEqual(got, titan[preset]) {
				t.Errorf("%s: preset %s is %+v, that of titan-rtx-opt %+v", name, preset, got, titan[preset])
			}
		}
		if _, ok := presets["paper"]; ok {
			t.Errorf("%s borrows a preset with the observation of another fleet", name)
		}
	}
}

// The preset paper is the paper's recipe: its state (LBE-9), network (LBE-12),
// hyper-parameters (LBE-14), length (LBE-15) and load (LBE-16).
func TestPresetPaper(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	p := s.Training.Presets["paper"]
	trained := s.Trained(p)
	spec := trained.Spec()
	network, err := nn.New(slices.Concat([]int{spec.Inputs()}, p.Hidden, []int{spec.Outputs()})...)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []observation.Kind
	for _, f := range spec.Features {
		kinds = append(kinds, f.Kind)
	}
	for what, x := range map[string]struct{ got, want any }{
		"observation":            {kinds, []observation.Kind{observation.TaskID, observation.InFlight, observation.Rate}},
		"layers":                 {network.Sizes, []int{5, 256, 256, 3}},
		"parameters":             {network.Parameters(), 68_099},
		"discount":               {p.Discount, rl.Discount{PerStep: 0.99}},
		"learning rate":          {[]float64{p.LearningRateAt(0), p.LearningRateAt(p.Decisions)}, []float64{1e-4, 1e-4}},
		"batch":                  {p.Batch, 1024},
		"steps between copies":   {p.TargetSync, 500},
		"decisions":              {p.Decisions, 1_200_000},
		"decisions per step":     {p.TrainEvery, 1},
		"load":                   {trained.Training.Load, workloads.Load{MinRate: 0.25, MaxRate: 48, UniformShare: 1, MinPhase: 40, MaxPhase: 40}},
		"tasks, all alike often": {s.Workload.Mix, workloads.Mix{"hellaswag": 1, "copa": 1, "piqa": 1, "openbookqa": 1}},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("%s: %v, the paper has %v", what, x.got, x.want)
		}
	}
	// What it does not have.
	if p.Members > 1 || p.Dueling || p.AdviceMargin != 0 || p.CentreRewards || p.WeightAverage != 0 || p.NStep > 1 || p.Priority != nil || len(p.Candidate) > 0 {
		t.Errorf("more than the paper's: %+v", p)
	}
}

func TestPresetsFrom(t *testing.T) {
	own := load(t, "testdata/minimal.yaml").Training.Presets["quick"]
	both := parse(t, minimal(t, "  presets:\n", "  presets_from: tiny\n  presets:\n"))
	if !reflect.DeepEqual(both.Training.Presets["quick"], own) {
		t.Error("a borrowed preset goes before the scenario's own")
	}
	if want := load(t, "tiny").Training.Presets["default"]; !reflect.DeepEqual(both.Training.Presets["default"], want) {
		t.Errorf("borrowed %+v, lent %+v", both.Training.Presets["default"], want)
	}
	if both.Hash() != parse(t, minimal(t)).Hash() {
		t.Error("presets count as the world")
	}
}

// The sweep of each scenario reaches from where the largest variant carries all
// to where the smallest does not, and training sees all its rates.
func TestLoadsCoverTheSweep(t *testing.T) {
	for _, name := range scenario.Fleets() {
		s := load(t, name)
		rates, load := s.Evaluation.StableRates, s.Training.Load
		if !slices.IsSorted(rates) || load.MinRate > rates[0] || load.MaxRate < rates[len(rates)-1] {
			t.Errorf("%s: the sweep is %v, training from %v to %v", name, rates, load.MinRate, load.MaxRate)
		}
	}
}

func models(t *testing.T, name string) map[string]*profile.Profile {
	t.Helper()
	s := load(t, name)
	all := map[string]*profile.Profile{}
	for i := range s.Models {
		variant := s.Models[i].Variant
		if _, ok := published[variant]; !ok {
			t.Fatalf("%s: nothing published of %s", name, variant)
		}
		all[variant] = &s.Models[i].Profile
	}
	if len(all) != len(s.Variants) {
		t.Fatalf("%s: %d profiles of %d variants", name, len(all), len(s.Variants))
	}
	return all
}

// What is stored was trained on a scenario of a hash: a new key, or a default, makes no other
// world of one that has not changed.
func TestHashesOfBuiltInScenarios(t *testing.T) {
	for name, want := range map[string]string{
		"tiny": "8bf5c96d489e", "titan-rtx-opt": "1a76069d85ee",
		"mosel-av-hubert": "9ab100b427d1", "mosel-mmsa": "714d42f2482f", "mosel-tbn": "e120401a4000", "mosel-tvlt": "eabcf5b698ba", "mosel-vilt": "303e36b9173f",
	} {
		if got := load(t, name).Hash()[:12]; got != want {
			t.Errorf("%s has the hash %s, and had %s", name, got, want)
		}
	}
}
