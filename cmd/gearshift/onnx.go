//go:build onnx

package main

import (
	"fmt"
	"os"
	"path/filepath"

	ort "github.com/yalue/onnxruntime_go"
)

// onnxLibrary is the file that `make onnxruntime` fetches.
const onnxLibrary = "libonnxruntime.so.1"

// onnxRuntime loads the ONNX Runtime library and says which it is. It looks at
// GEARSHIFT_ONNXRUNTIME, beside the binary and in the tree that built it, then
// where the system keeps libraries.
func onnxRuntime() string {
	path := os.Getenv("GEARSHIFT_ONNXRUNTIME")
	if path == "" {
		path = findONNX()
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(); err != nil {
		return fmt.Sprintf("in this build, but its library does not load: %v", err)
	}
	defer func() { _ = ort.DestroyEnvironment() }()
	return fmt.Sprintf("%s (%s)", ort.GetVersion(), path)
}

func findONNX() string {
	if self, err := os.Executable(); err == nil {
		for _, folder := range []string{".", "../.cache/onnxruntime"} {
			path := filepath.Join(filepath.Dir(self), folder, onnxLibrary)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return onnxLibrary
}
