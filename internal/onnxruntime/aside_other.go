//go:build !linux

package onnxruntime

// aside runs what loads a model.
func aside(load func(), _ int) { load() }
