//go:build !onnx || !cgo

package onnxruntime

import (
	"errors"

	"gearshift/internal/training/policies"
	"gearshift/serving/backend/classifier"
	"gearshift/serving/backend/decoder"
)

var errNoONNX = errors.New("this build has no ONNX Runtime; `make onnxruntime` fetches it, then `make build` links it")

func ONNXRuntime() string { return "not in this build (tag onnx)" }

func Networks() (policies.Runner, error) {
	return nil, errNoONNX
}

func openDecoder(Config) (decoder.Model, error) { return nil, errNoONNX }

func openClassifier(Config, int) (classifier.Model, error) { return nil, errNoONNX }

func measureDecoder(string) (decoder.Layout, error) { return decoder.Layout{}, errNoONNX }

// Available says why there is no ONNX Runtime, if there is none.
func Available() error { return errNoONNX }
