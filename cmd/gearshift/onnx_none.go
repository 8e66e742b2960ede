//go:build !onnx || !cgo

package main

import "errors"

func onnxRuntime() string { return "not in this build (tag onnx)" }

func newONNXEngine() (runner, error) {
	return nil, errors.New("this build has no ONNX Runtime; `make onnxruntime` fetches it, then `make build` links it")
}
