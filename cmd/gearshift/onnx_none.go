//go:build !onnx || !cgo

package main

import (
	"errors"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/serving/backend/decoder"
)

var errNoONNX = errors.New("this build has no ONNX Runtime; `make onnxruntime` fetches it, then `make build` links it")

func onnxRuntime() string { return "not in this build (tag onnx)" }

func newONNXEngine() (runner, error) {
	return nil, errNoONNX
}

func openModel(scenario.Local, int64) (decoder.Model, error) { return nil, errNoONNX }
