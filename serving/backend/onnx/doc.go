// Package onnx computes decoders, classifiers and the networks of policies by ONNX Runtime, a C library that is loaded
// while the program runs. All but this sentence needs the build tag onnx.
package onnx
