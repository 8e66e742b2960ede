package profile_test

import (
	"math"
	"os"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/router/profile"
)

const titanRTX = "../../workloads/scenarios/titan-rtx-opt.yaml"

// load reads the profiles of the built-in scenario, so that these tests hold
// the numbers that ship.
func load(t *testing.T) map[string]*profile.Profile {
	t.Helper()
	data, err := os.ReadFile(titanRTX)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Profiles []struct {
			Variant         string `yaml:"variant"`
			profile.Profile `yaml:",inline"`
		} `yaml:"profiles"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	profiles := map[string]*profile.Profile{}
	for _, p := range file.Profiles {
		profiles[p.Variant] = &p.Profile
	}
	return profiles
}

// TestDecodeSteps holds the decode steps of the calibration at a context of
// 218 tokens a sequence, alone on the host, to the tenth that it gives.
func TestDecodeSteps(t *testing.T) {
	profiles := load(t)
	for variant, steps := range map[string]map[int]float64{
		"opt-125m": {1: 4.9, 8: 6.3, 32: 11.1, 64: 17.5},
		"opt-1.3b": {1: 8.5, 8: 11.1, 32: 19.7, 64: 31.3},
		"opt-6.7b": {1: 35.9, 4: 37.9, 8: 40.7, 16: 46.1, 32: 57.0},
	} {
		for batch, want := range steps {
			got, duty := profiles[variant].Step(batch, batch, 218*batch, 0)
			if math.Abs(got-want) > 0.1 {
				t.Errorf("%s at batch %d takes %.3f ms, want %v", variant, batch, got, want)
			}
			if duty <= 0 || duty > 1 {
				t.Errorf("%s at batch %d has duty %v", variant, batch, duty)
			}
		}
	}
}

// TestPrefillSteps: a prompt of 90 tokens, nothing decoding.
func TestPrefillSteps(t *testing.T) {
	profiles := load(t)
	for variant, want := range map[string]float64{"opt-125m": 4.9, "opt-1.3b": 10.2, "opt-6.7b": 44.6} {
		if got, _ := profiles[variant].Step(90, 1, 0, 0); math.Abs(got-want) > 0.1 {
			t.Errorf("%s takes %.3f ms, want %v", variant, got, want)
		}
	}
}

// TestKVTokens holds the KV caches of the calibration: the three side by side
// with 5, 20 and 75 % of 24 GiB, and each alone with 90 %. The scenario states
// bytes rounded to 10 MB, which in 38,474 blocks can be one block off.
func TestKVTokens(t *testing.T) {
	profiles := load(t)
	share := func(percent int64) int64 { return 24 << 30 * percent / 100 }
	for _, test := range []struct {
		variant string
		memory  int64
		want    int
	}{
		{"opt-125m", share(5), 21_376},
		{"opt-1.3b", share(20), 11_296},
		{"opt-6.7b", share(75), 10_528},
		{"opt-125m", share(90), 615_584},
		{"opt-1.3b", share(90), 103_056},
		{"opt-6.7b", share(90), 17_904},
		{"opt-6.7b", share(20), 0}, // its weights do not fit
	} {
		if got := profiles[test.variant].KVTokens(test.memory, 16); got != test.want {
			t.Errorf("%s in %d bytes holds %d tokens, want %d", test.variant, test.memory, got, test.want)
		}
	}
}

func TestKVTokensIsWholeBlocks(t *testing.T) {
	p := profile.Profile{WeightBytes: 100, ActivationBytes: 20, KVBytes: 2}
	for memory, want := range map[int64]int{119: 0, 120: 0, 151: 0, 152: 16, 183: 16, 184: 32} {
		if got := p.KVTokens(memory, 16); got != want {
			t.Errorf("%d bytes hold %d tokens, want %d", memory, got, want)
		}
	}
	if (&profile.Profile{}).KVTokens(1<<30, 16) != 0 || p.KVTokens(1<<30, 0) != 0 {
		t.Error("no tokens fit where their size or the block's is unknown")
	}
}

func TestContention(t *testing.T) {
	p := profile.Profile{Weights: 30, Token: 1, Overhead: 2, Sequence: 0.5, Contention: 0.15}
	alone, duty := p.Step(1, 1, 0, 0)
	if alone != 32.5 || math.Abs(duty-30/32.5) > 1e-12 {
		t.Errorf("alone: %v ms, duty %v", alone, duty)
	}
	// The neighbours slow the GPU part alone: 30 × (1 + 0.15 × 2).
	beside, less := p.Step(1, 1, 0, 2)
	if math.Abs(beside-41.5) > 1e-12 || math.Abs(less-30/41.5) > 1e-12 {
		t.Errorf("beside neighbours: %v ms, duty %v", beside, less)
	}
	if ms, duty := (&profile.Profile{}).Step(5, 5, 5, 5); ms != 0 || duty != 0 {
		t.Errorf("the zero profile takes %v ms at duty %v", ms, duty)
	}
}

// Engines that take turns are slowed little by one neighbour and much by the second,
// and load the GPU for as long as they wait for it.
func TestCrowding(t *testing.T) {
	p := profile.Profile{Weights: 30, Overhead: 2, Contention: 0.1, Crowding: 0.9}
	for neighbours, want := range map[float64]float64{0: 30, 1: 33, 1.5: 30 * (1 + 0.15 + 0.45), 2: 63} {
		ms, duty := p.Step(1, 1, 0, neighbours)
		if math.Abs(ms-want-2) > 1e-12 || math.Abs(duty-want/(want+2)) > 1e-12 {
			t.Errorf("beside %v: %v ms, duty %v; want %v ms more than the overhead", neighbours, ms, duty, want)
		}
	}
}

// TestStepsGrow: more tokens, sequences, context or neighbours never make a
// step quicker.
func TestStepsGrow(t *testing.T) {
	for variant, p := range load(t) {
		last := 0.0
		for n := 1; n <= 4096; n++ {
			got, _ := p.Step(n, min(n, 256), 218*n, 0)
			if got < last {
				t.Fatalf("%s: %d tokens take %v ms, one fewer takes %v", variant, n, got, last)
			}
			if slowed, _ := p.Step(n, min(n, 256), 218*n, 0.5); slowed < got {
				t.Fatalf("%s: %d tokens are quicker beside a neighbour", variant, n)
			}
			last = got
		}
	}
}

func TestDuration(t *testing.T) {
	if got := profile.Duration(1.5); got != 1500*time.Microsecond {
		t.Errorf("1.5 ms are %v", got)
	}
}
