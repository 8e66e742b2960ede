package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// The weights of a model are in memory once while it is loaded, not as its file as well.
func TestEngineLoadsWithoutACopy(t *testing.T) {
	needONNX(t)
	dir := t.TempDir()
	succeed(t, "models", "make", "--family", "images", "--out", dir, "--size", "wide=24x128")
	info, err := os.Stat(filepath.Join(dir, "wide", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "engine", "--repository", dir, "--addr", "127.0.0.1:0")
	e := &engineProcess{process: p, url: "http://" + p.listens(t)}
	before := p.hwm(t)
	e.expect(t, "POST", "/v2/repository/models/wide/load", "", http.StatusOK)
	taken, size := p.hwm(t)-before, int(info.Size())
	t.Logf("a load of %d MiB took at most %d MiB", size>>20, taken>>20)
	if taken < size || taken > size*3/2 {
		t.Errorf("a load of %d MiB took at most %d MiB; want one to one and a half times as much", size>>20, taken>>20)
	}
	p.stop(t)
}
