//go:build onnx && cgo

package onnx

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/checkpoints/onnxfile"
)

// A model of another layout is refused without its weights being read: a TiB, in a file with
// a hole.
func TestALayoutIsReadWithoutTheWeights(t *testing.T) {
	const weights = 1 << 40
	field := func(number byte, length int) []byte {
		return binary.AppendUvarint([]byte{number<<3 | byte(onnxfile.Length)}, uint64(length))
	}
	head := field(9, weights)                           // of the numbers of a tensor
	head = append(field(5, len(head)+weights), head...) // of a graph
	head = append(field(7, len(head)+weights), head...) // of a model
	dir := t.TempDir()
	path := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(head))+weights); err != nil {
		t.Skipf("the file system has no files of a TiB: %v", err)
	}
	_, decoder := Open(dir, Options{})
	_, classifier := OpenClassifier(dir, 0, Options{})
	_, layout := ReadLayout(dir)
	for want, err := range map[string]error{
		path + ": model.onnx is not in the layout of a decoder with past": decoder,
		path + ": it is no late-fusion classifier: ":                      classifier,
		"cannot read model " + path + ": model.onnx is not in the layout": layout,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A file that is cut after its layout was read is refused by its session too.
func TestASessionOfACutFile(t *testing.T) {
	path := filepath.Join(writeClassifier(t), "model.onnx")
	outline, size, err := readFile(path, Options{})
	if err != nil || int64(len(outline)) >= size {
		t.Fatalf("%d of %d bytes, %v", len(outline), size, err)
	}
	for _, left := range []int64{0, size / 2, size - 1} {
		if err := os.Truncate(path, left); err != nil {
			t.Fatal(err)
		}
		s, err := newSession(path, nil, nil, Options{})
		if err == nil {
			_ = s.Destroy()
		}
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%d of %d bytes: %v", left, size, err)
		}
	}
}
