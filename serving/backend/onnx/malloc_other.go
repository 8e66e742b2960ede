//go:build onnx && cgo && !linux

package onnx

// returnFree gives the memory of a model that is closed back to the system.
func returnFree() {}
