//go:build onnx && cgo && !unix

package onnx

func takeMemory(numbers int) ([]float32, error) { return make([]float32, numbers), nil }

func returnMemory([]float32) {}
