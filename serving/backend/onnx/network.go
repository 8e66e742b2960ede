//go:build onnx && cgo

package onnx

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// loading guards the library, which a process loads once and keeps.
var loading sync.Mutex

// LoadLibrary loads the library at the path, unless one is loaded, and returns its
// version.
func LoadLibrary(path string) (version string, err error) {
	loading.Lock()
	defer loading.Unlock()
	if !onnxruntime.IsInitialized() {
		// Errors come back from each call, and need not be printed as well.
		onnxruntime.SetSharedLibraryPath(path)
		if err := onnxruntime.InitializeEnvironment(onnxruntime.WithLogLevelFatal()); err != nil {
			return "", fmt.Errorf("cannot load ONNX Runtime from %s: %w", path, err)
		}
	}
	return onnxruntime.GetVersion(), nil
}

// Network is a network that ONNX Runtime runs. It satisfies
// policy.ValueFunction.
//
// One session holds the weights; each call takes one of a few pairs of tensors
// that are bound to it, so that goroutines do not wait for each other, as they
// would for one pair and a mutex. There are as many pairs as threads run Go: a
// call keeps its thread, so no more can be of use.
type Network struct {
	inputs, outputs int
	idle            chan *binding
	session         *onnxruntime.DynamicAdvancedSession
}

// binding is an input and an output that stay bound to each other. Their
// numbers lie in Go's heap, which does not move.
type binding struct {
	input, output *onnxruntime.Tensor[float32]
	io            *onnxruntime.IoBinding
}

// NewNetwork makes a network of an ONNX model, as the bytes of a file, that has one
// input of shape (batch, inputs) and one output of shape (batch, outputs), both
// float32, by these names. The library must be loaded.
func NewNetwork(model []byte, input, output string, inputs, outputs int) (*Network, error) {
	n := &Network{inputs: inputs, outputs: outputs, idle: make(chan *binding, runtime.GOMAXPROCS(0))}
	held := new(resources)
	if err := n.openSession(held, model, input, output); err != nil {
		held.release()
		return nil, fmt.Errorf("cannot run the network by ONNX Runtime: %w", err)
	}
	runtime.AddCleanup(n, (*resources).release, held)
	return n, nil
}

// openSession makes the session and what is bound to it, and runs it once.
func (n *Network) openSession(held *resources, model []byte, input, output string) error {
	options, err := onnxruntime.NewSessionOptions()
	if err != nil {
		return err
	}
	defer func() { _ = options.Destroy() }()
	// More threads would wait for each other longer than so few products take.
	if err := options.SetIntraOpNumThreads(1); err != nil {
		return err
	}
	if err := options.SetInterOpNumThreads(1); err != nil {
		return err
	}
	n.session, err = onnxruntime.NewDynamicAdvancedSessionWithONNXData(model, []string{input}, []string{output}, options)
	if err != nil {
		return err
	}
	held.add(n.session)
	for range cap(n.idle) {
		b, err := n.bind(held, input, output)
		if err != nil {
			return err
		}
		n.idle <- b
	}
	b := <-n.idle
	defer func() { n.idle <- b }()
	return n.session.RunWithBinding(b.io)
}

// bind makes a pair of tensors and binds them.
func (n *Network) bind(held *resources, input, output string) (*binding, error) {
	b := new(binding)
	var err error
	if b.input, err = onnxruntime.NewEmptyTensor[float32](onnxruntime.NewShape(1, int64(n.inputs))); err != nil {
		return nil, err
	}
	held.add(b.input)
	if b.output, err = onnxruntime.NewEmptyTensor[float32](onnxruntime.NewShape(1, int64(n.outputs))); err != nil {
		return nil, err
	}
	held.add(b.output)
	if b.io, err = n.session.CreateIoBinding(); err != nil {
		return nil, err
	}
	held.add(b.io)
	if err := b.io.BindInput(input, b.input); err != nil {
		return nil, err
	}
	return b, b.io.BindOutput(output, b.output)
}

// Inputs is the length of an input vector.
func (n *Network) Inputs() int { return n.inputs }

// Outputs is the length of an output vector.
func (n *Network) Outputs() int { return n.outputs }

// Scratch is 0: the runtime has buffers of its own.
func (n *Network) Scratch() int { return 0 }

// Forward writes the network's output for x into dst. len(x) is Inputs, len(dst)
// is Outputs; the third argument is not used. It allocates nothing, and
// goroutines may share the network. Where the runtime fails the output is NaN,
// which a policy takes for a damaged network.
func (n *Network) Forward(dst, x, _ []float32) {
	b := <-n.idle
	copy(b.input.GetData(), x)
	if err := n.session.RunWithBinding(b.io); err != nil {
		for i := range dst {
			dst[i] = float32(math.NaN())
		}
	} else {
		copy(dst, b.output.GetData())
	}
	n.idle <- b
}

// resources are what C holds for a network, in the order that it was made.
type resources []interface{ Destroy() error }

func (r *resources) add(d interface{ Destroy() error }) { *r = append(*r, d) }

// release destroys them, the last first.
func (r *resources) release() {
	for i := len(*r) - 1; i >= 0; i-- {
		_ = (*r)[i].Destroy() // which fails only on what is destroyed already
	}
}
