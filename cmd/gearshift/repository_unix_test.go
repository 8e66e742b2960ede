//go:build unix

package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe among the files of a model is refused by its name: the engine starts, lists its models, loads
// others and ends as it is told.
func TestEngineRepositoryWithPipes(t *testing.T) {
	needONNX(t)
	dir := makeRepository(t)
	for _, name := range []string{"model.onnx", "config.json", "tokenizer.json"} {
		folder := filepath.Join(dir, "with-"+name)
		err := os.CopyFS(folder, os.DirFS(filepath.Join(dir, "small")))
		if err = errors.Join(err, os.Remove(filepath.Join(folder, name))); err == nil {
			err = syscall.Mkfifo(filepath.Join(folder, name), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := startProcess(t, "engine", "--repository", dir, "--load", "small", "--addr", "127.0.0.1:0", "--max-sequences", "2")
	e := &engineProcess{process: p, url: "http://" + p.listens(t)}
	e.expect(t, "POST", "/v2/repository/index", "", http.StatusOK, `"with-model.onnx"`)
	for _, name := range []string{"model.onnx", "config.json", "tokenizer.json"} {
		e.expect(t, "POST", "/v2/repository/models/with-"+name+"/load", "", http.StatusBadRequest, "with-"+name+"/"+name+" is no regular file but a named pipe")
	}
	e.expect(t, "POST", "/v2/repository/models/small/unload", "", http.StatusOK)
	e.stop(t)
}
