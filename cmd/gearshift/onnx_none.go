//go:build !onnx

package main

func onnxRuntime() string { return "not in this build (tag onnx)" }
