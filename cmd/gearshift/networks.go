package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/router/nn"
	"gearshift/router/policy"
)

// runner runs the networks of stored policies.
type runner func(*nn.MLP) (policy.ValueFunction, error)

// The engines.
const (
	nativeEngine = "native"
	onnxEngine   = "onnx"
)

func engineFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "engine", nativeEngine, "what runs the networks of stored policies: native, or onnx for ONNX Runtime")
}

// policySource is where stored policies come from, and what runs them.
type policySource struct {
	store *checkpoints.Store
	run   runner // nil: the native one
}

// newPolicySource is the store at the path and the engine of the name.
func newPolicySource(path, name string) (*policySource, error) {
	source := &policySource{store: &checkpoints.Store{Path: path}}
	var err error
	switch name {
	case nativeEngine:
	case onnxEngine:
		source.run, err = newONNXEngine()
	default:
		err = fmt.Errorf("want %s or %s", nativeEngine, onnxEngine)
	}
	if err != nil {
		return nil, fmt.Errorf("--engine %s: %w", name, err)
	}
	return source, nil
}

// values is the network as the engine runs it.
func (s *policySource) values(n *nn.MLP) (policy.ValueFunction, error) {
	if s.run == nil {
		return n, nil
	}
	return s.run(n)
}
