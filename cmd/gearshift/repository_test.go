package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// makeRepository makes a folder with two decoders, a classifier and a damaged model.
func makeRepository(t *testing.T) string {
	t.Helper()
	dir := makeTiny(t)
	succeed(t, "models", "make", "--family", "classifier", "--out", dir, "--size", "eyes=1x16", "--context", "64")
	damaged := filepath.Join(dir, "damaged")
	if err := os.CopyFS(damaged, os.DirFS(filepath.Join(dir, "small"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(damaged, "model.onnx"), 1000); err != nil {
		t.Fatal(err)
	}
	return dir
}

// expect sends a request and holds its answer against the status and parts of the body.
func (e *engineProcess) expect(t *testing.T, method, path, body string, status int, parts ...string) string {
	t.Helper()
	got, text := e.do(t, method, path, body)
	if got != status {
		t.Errorf("%s %s: status %d, %s; want %d", method, path, got, text, status)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s %s: %s; want %q in it", method, path, text, p)
		}
	}
	return text
}

// Real models are loaded, answer, sleep, wake to the same answers, and are unloaded; a
// damaged one harms no other.
func TestEngineRepository(t *testing.T) {
	needONNX(t)
	dir := makeRepository(t)
	p := startProcess(t, "engine", "--repository", dir, "--memory", "100MiB", "--load", "small", "--addr", "127.0.0.1:0", "--max-sequences", "2")
	e := &engineProcess{process: p, url: "http://" + p.listens(t)}
	const load, unload = "/v2/repository/models/%/load", "/v2/repository/models/%/unload"
	of := func(path, model string) string { return strings.Replace(path, "%", model, 1) }
	e.expect(t, "POST", "/v2/repository/index", `{"ready": true}`, http.StatusOK, `[{"name":"small","version":"1","state":"READY","reason":""}]`)

	ask := func(model string) string {
		return `{"model": "` + model + `", "prompt": "word word", "max_tokens": 4, "temperature": 0, "ignore_eos": true}`
	}
	e.expect(t, "POST", "/v1/completions", ask("large"), http.StatusNotFound, `"code":"model_not_found"`, "is not loaded")
	e.expect(t, "POST", of(load, "large"), "", http.StatusOK)
	before := completion(t, e.expect(t, "POST", "/v1/completions", ask("large"), http.StatusOK, `"completion_tokens":4`))
	for _, level := range []string{"1", "2"} {
		e.expect(t, "POST", "/sleep?level="+level, "", http.StatusOK)
		e.expect(t, "POST", "/v1/completions", ask("large"), http.StatusServiceUnavailable, "asleep at level "+level)
		e.expect(t, "GET", "/is_sleeping", "", http.StatusOK, "true")
		e.expect(t, "POST", "/wake_up?tags=weights", "", http.StatusOK)
		e.expect(t, "GET", "/is_sleeping", "", http.StatusOK, "true")
		e.expect(t, "POST", "/wake_up?tags=kv_cache", "", http.StatusOK)
		if after := completion(t, e.expect(t, "POST", "/v1/completions", ask("large"), http.StatusOK)); after != before {
			t.Errorf("after a sleep of level %s the answer is %q, and was %q", level, after, before)
		}
	}

	e.expect(t, "POST", of(load, "damaged"), "", http.StatusBadRequest, "no whole ONNX file")
	e.expect(t, "POST", "/v2/repository/index", "", http.StatusOK, `{"name":"damaged","version":"1","state":"UNAVAILABLE","reason":"cannot load model`)
	e.expect(t, "POST", "/v1/completions", ask("small"), http.StatusOK)
	e.expect(t, "POST", of(load, "none"), "", http.StatusNotFound, "there are damaged, eyes, large, small")

	e.expect(t, "POST", of(load, "eyes"), "", http.StatusOK)
	e.expect(t, "GET", "/v2/models/eyes", "", http.StatusOK, `"platform":"onnx_onnxv1"`, `{"name":"pixel_values","datatype":"FP32","shape":[-1,3,32,32]}`)
	e.expect(t, "POST", "/v2/models/eyes/infer", `{"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["word", "a"]}]}`, http.StatusOK, `"shape":[2,10]`)
	e.expect(t, "POST", "/v2/models/eyes/infer", `{"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["word"]}]}`, http.StatusBadRequest, "number of elements")

	writeMemory(t, filepath.Join(dir, "large"), "99MiB")
	e.expect(t, "POST", of(unload, "large"), "", http.StatusOK)
	e.expect(t, "POST", of(load, "large"), "", http.StatusInsufficientStorage, `\"large\" needs 99.0 MiB`, "unload one or more of", "small (")
	e.expect(t, "POST", of(unload, "small"), "", http.StatusOK)
	e.expect(t, "POST", of(unload, "eyes"), "", http.StatusOK)
	e.expect(t, "POST", of(load, "large"), "", http.StatusOK)
	e.expect(t, "GET", "/health", "", http.StatusOK, `"large":"ready","small":"unloaded"`)
	p.stop(t)
}

// completion is the text of an answer.
func completion(t *testing.T, body string) string {
	t.Helper()
	var answer struct{ Choices []struct{ Text string } }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Choices) != 1 {
		t.Fatalf("%v, %s", err, body)
	}
	return answer.Choices[0].Text
}

// writeMemory declares what the folder's model takes.
func writeMemory(t *testing.T, dir, memory string) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), "{", `{"memory": "`+memory+`",`, 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEngineRepositoryRefuses(t *testing.T) {
	needONNX(t)
	dir := makeTiny(t)
	empty := t.TempDir()
	fail(t, []string{"engine", "--repository", empty}, empty, "no folder in it has a model.onnx")
	fail(t, []string{"engine", "--repository", filepath.Join(dir, "none")}, "none: there is no such folder; `gearshift models make --out ", "makes models")
	fail(t, []string{"engine", "--repository", dir, "--load", "huge"}, `"huge"`, "there are large, small")
	fail(t, []string{"engine", "--repository", dir, "--memory", "1MiB", "--load", "small"}, `"small" needs`, "the engine has 1.0 MiB in all")
	fail(t, []string{"engine", "--repository", dir, "--memory", "lots"}, "lots", "24GiB")
	fail(t, []string{"engine", "--repository", dir, "--model", filepath.Join(dir, "small")}, `two folders hold a model "small"`)
	fail(t, []string{"engine", "--repository", dir, "--host", "gpu0"}, "--host is for a scenario's engines")
}
