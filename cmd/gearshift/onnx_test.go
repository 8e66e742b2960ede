package main

import (
	"os"
	"path/filepath"
	"testing"

	"gearshift/internal/onnxruntime"
)

// needONNX skips the test where there is no ONNX Runtime to test with.
func needONNX(t testing.TB) {
	t.Helper()
	if onnxruntime.ONNXRuntime() == "not in this build (tag onnx)" {
		t.Skip("this build lacks the tag onnx: `make onnxruntime` fetches ONNX Runtime, and it needs a C compiler (Debian: apt-get install gcc libc6-dev)")
	}
	if os.Getenv("GEARSHIFT_ONNXRUNTIME") != "" {
		return
	}
	path, err := filepath.Abs("../../.cache/onnxruntime/libonnxruntime.so.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skip("no ONNX Runtime library; `make onnxruntime` fetches it")
	}
	t.Setenv("GEARSHIFT_ONNXRUNTIME", path)
}
