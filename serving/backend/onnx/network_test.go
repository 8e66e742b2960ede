//go:build onnx && cgo

package onnx

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/router/conformance"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

// random is a network of random weights and biases, like that of a trained
// policy: some members of the hidden sizes, favouring advice.
func random(t testing.TB, members, inputs, hidden, outputs int) *nn.MLP {
	t.Helper()
	var list []*nn.MLP
	for i := range members {
		n, err := nn.New(inputs, hidden, hidden, outputs)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		n.Randomise(rng)
		for _, b := range n.Biases {
			for k := range b {
				b[k] = float32(rng.NormFloat64() / 10)
			}
		}
		list = append(list, n)
	}
	stack, err := nn.Stack(list...)
	if err != nil {
		t.Fatal(err)
	}
	if stack, err = stack.Favouring(0.03, outputs); err != nil {
		t.Fatal(err)
	}
	return stack
}

func openNetwork(t testing.TB, n *nn.MLP) *Network {
	t.Helper()
	load(t)
	o, err := NewNetwork(checkpoints.NetworkONNX(n), checkpoints.ONNXInput, checkpoints.ONNXOutput, n.Inputs(), n.Outputs())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// draws are observations, in [0, 1] for the most part as a policy's are.
func draws(inputs, count int) [][]float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([][]float32, count)
	for i := range list {
		for range inputs {
			list[i] = append(list[i], float32(rng.ExpFloat64()/3))
		}
	}
	return list
}

// forwardPolicy is the network's output for x.
func forwardPolicy(n policy.ValueFunction, x []float32) []float32 {
	out := make([]float32, n.Outputs())
	n.Forward(out, x, make([]float32, n.Scratch()))
	return out
}

// near reports whether the engines' values agree to 1e-5, of the value where it is
// above 1.
func near(a, b float32) bool {
	return math.Abs(float64(a-b)) <= 1e-5*max(1, math.Abs(float64(a)))
}

func TestEnginesAgree(t *testing.T) {
	for _, members := range []int{1, 4} {
		native := random(t, members, 25, 64, 3)
		runtime := openNetwork(t, native)
		worst := 0.0
		for _, x := range draws(25, 5000) {
			want, got := forwardPolicy(native, x), forwardPolicy(runtime, x)
			for i := range want {
				worst = max(worst, math.Abs(float64(want[i]-got[i])))
				if !near(want[i], got[i]) {
					t.Fatalf("%d members: values %v by the runtime, %v natively", members, got, want)
				}
			}
		}
		t.Logf("%d members: values differ by %.1e at most", members, worst)
	}
}

func TestForwardAllocatesNothing(t *testing.T) {
	n := openNetwork(t, random(t, 1, 25, 64, 3))
	x, out := draws(25, 1)[0], make([]float32, 3)
	if allocs := testing.AllocsPerRun(200, func() { n.Forward(out, x, nil) }); allocs != 0 {
		t.Errorf("a forward pass allocates %v times", allocs)
	}
}

// More goroutines than bound tensors share a network, and each gets its own
// answers; networks that are dropped meanwhile take nothing with them.
func TestGoroutinesShareANetwork(t *testing.T) {
	native := random(t, 1, 25, 64, 3)
	shared := openNetwork(t, native)
	list := draws(25, 300)
	var wg sync.WaitGroup
	for g := range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range list {
				x := list[(i+g)%len(list)]
				if want, got := forwardPolicy(native, x), forwardPolicy(shared, x); !slices.EqualFunc(want, got, near) {
					t.Errorf("values %v, want %v", got, want)
				}
			}
		})
	}
	for range 20 {
		openNetwork(t, native)
		runtime.GC()
	}
	wg.Wait()
}

// A policy by the runtime is a policy like any other.
func TestPolicyConforms(t *testing.T) {
	table := conformance.Fleet(8)
	spec, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.TaskOneHot},
		{Kind: observation.InFlight, Scale: []float64{25, 25, 5}},
		{Kind: observation.Rate, Scale: []float64{24}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&policy.Maker{Table: table}).Network("ort@1", spec, openNetwork(t, random(t, 2, spec.Dim(), 64, 3)), policy.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	conformance.Policy(t, table, p)
}

func TestNewRefusesWhatDoesNotRun(t *testing.T) {
	load(t)
	n := random(t, 1, 5, 8, 3)
	model := checkpoints.NetworkONNX(n)
	for name, make := range map[string]func() (*Network, error){
		"no model": func() (*Network, error) {
			return NewNetwork([]byte("text"), checkpoints.ONNXInput, checkpoints.ONNXOutput, 5, 3)
		},
		"other names": func() (*Network, error) {
			return NewNetwork(model, "x", checkpoints.ONNXOutput, 5, 3)
		},
		"other inputs": func() (*Network, error) {
			return NewNetwork(model, checkpoints.ONNXInput, checkpoints.ONNXOutput, 6, 3)
		},
	} {
		if _, err := make(); err == nil || !strings.HasPrefix(err.Error(), "cannot run the network by ONNX Runtime: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// BenchmarkForward times a forward pass of the default preset's network, of one
// of a single member and of one without zeros, both ways in turn, in nanoseconds.
//
//	go test ./serving/backend/onnx -tags onnx -run '^$' -bench Forward
func BenchmarkForward(b *testing.B) {
	whole, err := nn.New(25, 256, 256, 3)
	if err != nil {
		b.Fatal(err)
	}
	whole.Randomise(rand.New(rand.NewPCG(1, 1)))
	for _, c := range []struct {
		name string
		net  *nn.MLP
	}{
		{"default=25-4×64-4×64-3", random(b, 4, 25, 64, 3)},
		{"single=25-64-64-3", random(b, 1, 25, 64, 3)},
		{"whole=25-256-256-3", whole},
	} {
		b.Run(c.name, func(b *testing.B) {
			engines := []policy.ValueFunction{c.net.Banded(), openNetwork(b, c.net)}
			list := draws(25, 256)
			out, scratch := make([]float32, 3), make([]float32, c.net.Scratch())
			const batch = 64 // of passes that are timed together
			var spent [2]time.Duration
			passes := 0
			for b.Loop() {
				for e, n := range engines {
					from := b.Elapsed()
					for i := range batch {
						n.Forward(out, list[(passes+i)%len(list)], scratch)
					}
					spent[e] += b.Elapsed() - from
				}
				passes += batch
			}
			b.ReportMetric(0, "ns/op") // of both together, which says nothing
			b.ReportMetric(float64(spent[0].Nanoseconds())/float64(passes), "native-ns")
			b.ReportMetric(float64(spent[1].Nanoseconds())/float64(passes), "onnx-ns")
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "onnx/native")
		})
	}
}
