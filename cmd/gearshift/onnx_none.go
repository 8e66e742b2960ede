//go:build !onnx || !cgo

package main

import (
	"errors"

	"gearshift/cmd/gearshift/policies"
	"gearshift/serving/backend/classifier"
	"gearshift/serving/backend/decoder"
)

var errNoONNX = errors.New("this build has no ONNX Runtime; `make onnxruntime` fetches it, then `make build` links it")

func onnxRuntime() string { return "not in this build (tag onnx)" }

func newONNXEngine() (policies.Runner, error) {
	return nil, errNoONNX
}

func openDecoder(localConfig) (decoder.Model, error) { return nil, errNoONNX }

func openClassifier(localConfig, int) (classifier.Model, error) { return nil, errNoONNX }
