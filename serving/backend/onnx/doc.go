// Package onnx computes decoders by ONNX Runtime, a C library that is loaded
// while the program runs. All but this sentence needs the build tag onnx.
package onnx
