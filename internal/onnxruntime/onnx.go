//go:build onnx && cgo

package onnxruntime

import (
	"fmt"
	"os"
	"path/filepath"

	"gearshift/checkpoints"
	"gearshift/internal/training/policies"
	"gearshift/router/nn"
	"gearshift/router/policy"
	"gearshift/serving/backend/classifier"
	"gearshift/serving/backend/decoder"
	"gearshift/serving/backend/onnx"
	"gearshift/serving/config/setting"
)

// onnxLibrary is the file that `make onnxruntime` fetches.
const onnxLibrary = "libonnxruntime.so.1"

// ONNXRuntime says which ONNX Runtime library there is.
func ONNXRuntime() string {
	path := findONNX()
	version, err := onnx.LoadLibrary(path)
	if err != nil {
		return fmt.Sprintf("in this build, but its library does not load: %v", err)
	}
	return fmt.Sprintf("%s (%s)", version, path)
}

// Available says why there is no ONNX Runtime, if there is none.
func Available() error {
	if _, err := onnx.LoadLibrary(findONNX()); err != nil {
		return errNoLibrary(err)
	}
	return nil
}

// errNoLibrary says how to come by the library that does not load.
func errNoLibrary(err error) error {
	return fmt.Errorf("%w; fetch the library by `make onnxruntime`, or name it in GEARSHIFT_ONNXRUNTIME", err)
}

// openDecoder loads a decoder for an engine.
func openDecoder(c Config) (decoder.Model, error) {
	if _, err := onnx.LoadLibrary(findONNX()); err != nil {
		return nil, errNoLibrary(err)
	}
	return onnx.Open(c.Path, c.options())
}

// openClassifier loads a classifier with a vocabulary of so many tokens.
func openClassifier(c Config, vocabulary int) (classifier.Model, error) {
	if _, err := onnx.LoadLibrary(findONNX()); err != nil {
		return nil, errNoLibrary(err)
	}
	return onnx.OpenClassifier(c.Path, vocabulary, c.options())
}

// measureDecoder reads what the memory of a decoder depends on, without loading it.
func measureDecoder(dir string) (decoder.Layout, error) { return onnx.ReadLayout(dir) }

func (c Config) options() onnx.Options {
	return onnx.Options{Threads: c.Threads, Provider: c.Provider, MaxBytes: c.Memory}
}

// Networks runs networks by ONNX Runtime.
func Networks() (policies.Runner, error) {
	if _, err := onnx.LoadLibrary(findONNX()); err != nil {
		return nil, errNoLibrary(err)
	}
	return func(n *nn.MLP) (policy.ValueFunction, error) {
		return onnx.NewNetwork(checkpoints.NetworkONNX(n), checkpoints.ONNXInput, checkpoints.ONNXOutput, n.Inputs(), n.Outputs())
	}, nil
}

// findONNX returns the path of the library. It looks at GEARSHIFT_ONNXRUNTIME, next to
// the binary and in the tree that built it, then where the system keeps
// libraries.
func findONNX() string {
	if path := setting.Env("GEARSHIFT_ONNXRUNTIME"); path != "" {
		return path
	}
	if self, err := os.Executable(); err == nil {
		for _, folder := range []string{".", "../.cache/onnxruntime"} {
			path := filepath.Join(filepath.Dir(self), folder, onnxLibrary)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return onnxLibrary
}
