package onnxruntime

import (
	"fmt"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/policies"
)

// What runs the networks of stored policies.
const (
	Native = "native"
	ONNX   = "onnx"
)

// Source is the store at the path, and the engine of the name for what comes from it.
func Source(path, name string) (*policies.Source, error) {
	source := &policies.Source{Store: &checkpoints.Store{Path: path}}
	var err error
	switch name {
	case Native:
	case ONNX:
		source.Run, err = Networks()
	default:
		err = fmt.Errorf("want %s or %s", Native, ONNX)
	}
	if err != nil {
		return nil, fmt.Errorf("--engine %s: %w", name, err)
	}
	return source, nil
}
