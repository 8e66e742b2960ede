//go:build onnx && cgo

package onnx

import (
	"errors"
	"fmt"
	"os"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"gearshift/checkpoints/onnxfile"
)

// readFile reads a model file without the numbers of its tensors, and how many bytes it has
// with the weights next to it.
func readFile(path string, o Options) (outline []byte, size int64, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, 0, errors.New("there is no such file; `gearshift models make` makes models")
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular(): // to open a pipe may take for ever
		return nil, 0, errors.New("it is no regular file")
	}
	size = info.Size()
	for _, suffix := range []string{"_data", ".data"} { // by Optimum and by ONNX Runtime's builder
		if weights, err := os.Stat(path + suffix); err == nil {
			size += weights.Size()
		}
	}
	if o.MaxBytes > 0 && size > o.MaxBytes {
		return nil, 0, fmt.Errorf("its %d bytes, with its weights, exceed the declared memory of %d", size, o.MaxBytes)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	outline, err = onnxfile.Outline(f, info.Size())
	return outline, size, err
}

// newSession has the library read the model file by itself, a part at a time. Of a file that
// is handed to it in memory it copies the tensors, so that there are two of each.
func newSession(path string, inputs, outputs []string, o Options) (*onnxruntime.DynamicAdvancedSession, error) {
	options, err := newOptions(o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = options.Destroy() }()
	session, err := onnxruntime.NewDynamicAdvancedSession(path, inputs, outputs, options)
	return session, oneLine(err)
}
