package checkpoints_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

// random is a network with random weights and biases.
func random(t testing.TB, sizes ...int) *nn.MLP {
	t.Helper()
	n, err := nn.New(sizes...)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, uint64(len(sizes))))
	n.Randomise(rng)
	for _, b := range n.Biases {
		for i := range b {
			b[i] = float32(rng.NormFloat64())
		}
	}
	return n
}

// policyOf is a checkpoint whose network has two hidden layers; with candidates it
// values replicas one by one.
func policyOf(t testing.TB, candidate ...observation.Feature) *checkpoints.Checkpoint {
	t.Helper()
	spec := observation.Spec{
		Version: observation.Version, Tasks: []string{"chat", "<code>"}, Variants: []string{"small", "large"},
		Features: []observation.Feature{
			{Kind: observation.TaskOneHot},
			{Kind: observation.InFlight, Scale: []float64{16, 8}},
			{Kind: observation.Rate, Scale: []float64{0.1}},
		},
		Candidate: candidate,
	}
	return &checkpoints.Checkpoint{Network: random(t, spec.Inputs(), 7, 6, spec.Outputs()), Meta: checkpoints.Meta{
		Scenario: "tiny", ScenarioHash: "5ca1ab1e", Spec: spec, SpecHash: spec.Hash(), Preset: "quick", Objective: "windows:0.98,20",
		Config: json.RawMessage("{\"decisions\": 1000,\n\"note\": \"a<b\"}"), Seed: math.MaxUint64, Decisions: 1000, From: "f00d",
		AdviceMargin: 0.03, Seen: []float32{1, 1, 0.1, math.MaxFloat32, 1e-42},
		Evaluation: json.RawMessage(`{"utility":0.8750000000000001}`),
	}}
}

func encodeONNX(t testing.TB, c *checkpoints.Checkpoint) []byte {
	t.Helper()
	data, err := checkpoints.EncodeONNX(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t testing.TB, data []byte) *checkpoints.ONNXModel {
	t.Helper()
	m, err := checkpoints.DecodeONNX(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An exported policy comes back to the bit, of either kind: it is stored under
// the same digest.
func TestRoundTrip(t *testing.T) {
	for name, c := range map[string]*checkpoints.Checkpoint{
		"of variants": policyOf(t),
		"of replicas": policyOf(t, observation.Feature{Kind: observation.Neighbours, Scale: []float64{20, 4}}),
	} {
		data := encodeONNX(t, c)
		if !bytes.Equal(data, encodeONNX(t, c)) {
			t.Errorf("%s: the same policy makes other bytes", name)
		}
		m := decode(t, data)
		if m.Meta == nil {
			t.Fatalf("%s: no description", name)
		}
		want, err := checkpoints.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := checkpoints.Encode(&checkpoints.Checkpoint{Meta: *m.Meta, Network: m.Network})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: it comes back another (%v)", name, err)
		}
		if again := encodeONNX(t, &checkpoints.Checkpoint{Meta: *m.Meta, Network: m.Network}); !bytes.Equal(again, data) {
			t.Errorf("%s: exported again, it makes other bytes", name)
		}
	}
}

// The bytes are a contract with what reads them.
func TestFileStaysAsItIs(t *testing.T) {
	const want = "7b2b6051"
	n, err := nn.New(2, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := checkpoints.Digest(checkpoints.NetworkONNX(n))[:8]; got != want {
		t.Errorf("the file of a small network has the digest %s, had %s", got, want)
	}
}

func TestNetworkAlone(t *testing.T) {
	for _, sizes := range [][]int{{1, 1}, {4, 3}, {25, 64, 64, 3}} {
		n := random(t, sizes...)
		m := decode(t, checkpoints.NetworkONNX(n))
		if m.Meta != nil || !reflect.DeepEqual(m.Network, n) {
			t.Errorf("%v: came back as %v", sizes, m.Network.Sizes)
		}
	}
}

func TestEncodeONNXRefusesWhatMakesNoPolicy(t *testing.T) {
	c := policyOf(t)
	c.Network.Biases[0][2] = float32(math.NaN())
	if _, err := checkpoints.EncodeONNX(c); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("error %v", err)
	}
}

// A description does not vouch for weights, nor weights for a description, that
// were changed after the export.
func TestChangesAreNoticed(t *testing.T) {
	data := encodeONNX(t, policyOf(t))
	const fault = "not those that were exported"
	weights := slices.Clone(data)
	weights[bytes.LastIndex(data, []byte("weights1"))+20] ^= 1
	for name, changed := range map[string][]byte{
		"weights":     weights,
		"description": bytes.Replace(data, []byte(`"utility":0.8`), []byte(`"utility":0.9`), 1),
		"digest":      bytes.Replace(data, []byte("gearshift.sha256"), []byte("gearshift.sha257"), 1),
	} {
		if bytes.Equal(changed, data) {
			t.Fatalf("%s: nothing is changed", name)
		}
		if _, err := checkpoints.DecodeONNX(changed); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzDecodeONNX(f *testing.F) {
	f.Add(encodeONNX(f, policyOf(f)))
	f.Add(checkpoints.NetworkONNX(random(f, 3, 2)))
	f.Add([]byte(baselines(random(f, 4, 5, 5, 2)).model()))
	f.Add([]byte(keras(random(f, 4, 5, 2)).model()))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := checkpoints.DecodeONNX(data)
		if err != nil {
			if len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is no line: %.3000s", err)
			}
			return
		}
		again := decode(t, checkpoints.NetworkONNX(m.Network))
		if !reflect.DeepEqual(again.Network, m.Network) {
			t.Error("what was read is not what it is written as")
		}
		if m.Meta != nil {
			encodeONNX(t, &checkpoints.Checkpoint{Meta: *m.Meta, Network: m.Network})
		}
	})
}
