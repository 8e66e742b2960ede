package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/local"
	"gearshift/cmd/gearshift/policies"
)

// The engines.
const (
	nativeEngine = "native"
	onnxEngine   = "onnx"
)

func engineFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "engine", nativeEngine, "what runs the networks of stored policies: native, or onnx for ONNX Runtime")
}

// newPolicySource is the store at the path and the engine of the name.
func newPolicySource(path, name string) (*policies.Source, error) {
	source := &policies.Source{Store: &checkpoints.Store{Path: path}}
	var err error
	switch name {
	case nativeEngine:
	case onnxEngine:
		source.Run, err = local.Networks()
	default:
		err = fmt.Errorf("want %s or %s", nativeEngine, onnxEngine)
	}
	if err != nil {
		return nil, fmt.Errorf("--engine %s: %w", name, err)
	}
	return source, nil
}
