package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/serving/backend/models"
)

// makeTiny writes two models that compute a token in no time.
func makeTiny(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out := succeed(t, "models", "make", "--out", dir, "--size", "small=1x16", "--size", "large=2x32", "--context", "64")
	if !strings.Contains(out, filepath.Join(dir, "large")+": 0.0 million parameters") {
		t.Errorf("models make prints %s", out)
	}
	return dir
}

// localTiny is the tiny scenario with the models of the folder in this process.
func localTiny(t *testing.T, dir, more string) string {
	t.Helper()
	return edited(t, "tiny", "  backend: simulated", fmt.Sprintf(`  backend: onnx
  models:
    small: {path: %[1]s/small}
    large@gpu0: {path: %[1]s/large%s}
`, dir, more))
}

// The scenario of the models that are made by default has room for their caches: key
// and value of each layer, in floats of four bytes.
func TestTheCacheOfTheMadeModels(t *testing.T) {
	s, err := scenario.Load("cpu-three")
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]models.Size{}
	for _, size := range models.Decoders() {
		sizes[size.Name] = size
	}
	for _, m := range s.Models {
		size := sizes[m.Variant]
		if want := int64(2 * 4 * size.Layers * size.Width); m.KVBytes != want || want == 0 {
			t.Errorf("%s: %d bytes for a cached token, want %d", m.Variant, m.KVBytes, want)
		}
	}
}

func TestModelsMakeRefuses(t *testing.T) {
	dir := t.TempDir()
	fail(t, []string{"models", "make"}, "--out DIR")
	fail(t, []string{"models", "make", "--out", dir, "--family", "encoder"}, `--family "encoder"`, "decoder")
	fail(t, []string{"models", "make", "--out", dir, "--size", "small"}, `--size "small"`, "NAME=LAYERSxWIDTH")
	fail(t, []string{"models", "make", "--out", dir, "--family", "classifier", "--concat"}, "--concat", "no KV cache")
	fail(t, []string{"models", "make", "--out", dir, "--context", "1"}, "--context 1")
	fail(t, []string{"models", "make", "--out", dir, "--family", "images", "--context", "8"}, "--context is for models of text, not for --family images")
	fail(t, []string{"models", "make", "--out", dir, "--force", "--size", "a=1x16", "--size", "a=2x16"}, `--size "a=2x16"`, "twice")
	makeOne := []string{"models", "make", "--out", dir, "--size", "a=1x16"}
	succeed(t, makeOne...)
	fail(t, makeOne, filepath.Join(dir, "a"), "--force")
}

// Models answer through the router as any backend does, and what is wrong with a
// request is said while the server goes on.
func TestServeModels(t *testing.T) {
	needONNX(t)
	s := serveTiny(t, "--scenario", localTiny(t, makeTiny(t), ""))
	for model, want := range map[string]string{"small": "small", "large": "large", "auto": ""} {
		body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "word word word"}], "max_tokens": 5, "ignore_eos": true}`, model)
		status, header, text := s.ask(t, "POST", "/v1/chat/completions", body)
		var a struct {
			Usage struct {
				Prompt int `json:"prompt_tokens"`
				Output int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK || a.Usage.Prompt != 3 || a.Usage.Output != 5 ||
			want != "" && header.Get("X-Gearshift-Variant") != want {
			t.Errorf("%s: status %d, %v, %s", model, status, header, text)
		}
	}
	long := fmt.Sprintf(`{"model": "auto", "prompt": %q}`, strings.Repeat("word ", 64))
	if status, _, text := s.ask(t, "POST", "/v1/completions", long); status != http.StatusBadRequest || !strings.Contains(text, `"code":"context_length_exceeded"`) {
		t.Errorf("a prompt beyond the context: %d %s", status, text)
	}
	status, _, text := s.ask(t, "POST", "/v1/completions", `{"model": "small", "prompt": "x", "max_tokens": 4, "ignore_eos": true, "stream": true}`)
	if status != http.StatusOK || strings.Count(text, "data: ") != 6 || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream: %d %s", status, text)
	}
	s.end(t)
}

// Each fault of a model is one line, before anything is served.
func TestServeRefusesModels(t *testing.T) {
	needONNX(t)
	dir := makeTiny(t)
	serve := func(scenario string, want ...string) {
		t.Helper()
		fail(t, []string{"serve", "--scenario", scenario, "--policy", "static:small", "--addr", "127.0.0.1:0", "--admin-addr", "off"}, append(want, "replica large@gpu0: ")...)
	}
	serve(localTiny(t, dir, ", kv_tokens: 999999999, max_sequences: 99999999"), "exceed the declared memory", "want kv_tokens of at most")
	serve(localTiny(t, dir, ", execution_provider: cuda"), "CUDA cannot be used")
	path := filepath.Join(dir, "large", "model.onnx")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(file string, text []byte, want string) {
		t.Helper()
		name := filepath.Join(dir, "large", file)
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
		serve(localTiny(t, dir, ""), name, want)
		if err := os.WriteFile(name, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spoil("model.onnx", data[:len(data)/2], "it is no whole ONNX file")
	spoil("config.json", []byte("{"), "it is not the JSON of a model's configuration")
	spoil("config.json", []byte("{}"), "n_positions")
	spoil("tokenizer.json", []byte(`{"model": {"type": "WordPiece"}}`), `its model is of type "WordPiece"`)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	serve(localTiny(t, dir, ""), "there is no such file", "gearshift models make")
	gone := filepath.Join(t.TempDir(), "gone")
	fail(t, []string{"serve", "--scenario", localTiny(t, gone, ""), "--policy", "static:small", "--addr", "127.0.0.1:0", "--admin-addr", "off"},
		"replica small@gpu0: cannot read model: there is no folder "+gone+"/small; `gearshift models make --out "+gone+"` makes models")
}

// Classifiers answer through the router on an endpoint of their own.
func TestServeClassifiers(t *testing.T) {
	needONNX(t)
	dir := t.TempDir()
	succeed(t, "models", "make", "--family", "classifier", "--out", dir, "--size", "small=1x16", "--size", "large=2x32")
	s := serveTiny(t, "--scenario", localTiny(t, dir, ""))
	status, header, text := s.ask(t, "POST", "/v1/gearshift/classify", `{"model": "large", "input": "word word word"}`)
	if status != http.StatusOK || header.Get("X-Gearshift-Variant") != "large" || !strings.Contains(text, `"modalities":["text"]`) ||
		!strings.Contains(text, `"prompt_tokens":3`) || !strings.Contains(text, `"label":"LABEL_`) {
		t.Errorf("%d %v %s", status, header, text)
	}
	if status, _, text := s.ask(t, "POST", "/v1/gearshift/classify", `{"model": "auto"}`); status != http.StatusBadRequest || !strings.Contains(text, "nothing to classify") {
		t.Errorf("nothing: %d %s", status, text)
	}
	for range 12 { // a classifier does not lose its place for what it is not made for
		if status, _, text := s.ask(t, "POST", "/v1/chat/completions", `{"model": "auto", "messages": [{"role": "user", "content": "hi"}]}`); status != http.StatusNotFound {
			t.Errorf("a chat: %d %s", status, text)
		}
	}
	if status, _, text := s.ask(t, "POST", "/v1/gearshift/classify", `{"model": "small", "input": "word"}`); status != http.StatusOK {
		t.Errorf("after the chats: %d %s", status, text)
	}
	s.end(t)
}

// A model is a server of its own, with vLLM's metrics.
func TestEngineServesModels(t *testing.T) {
	needONNX(t)
	dir := makeTiny(t)
	p := startProcess(t, "engine", "--model", filepath.Join(dir, "small"), "--model", filepath.Join(dir, "large"), "--addr", "127.0.0.1:0")
	e := &engineProcess{process: p, url: "http://" + p.listens(t)}
	if n := e.running(t); n != 0 {
		t.Errorf("%d are running", n)
	}
	response, err := http.Post(e.url+"/v1/completions", "application/json", strings.NewReader(`{"model": "large", "prompt": "x", "max_tokens": 3, "ignore_eos": true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), `"completion_tokens":3`) {
		t.Errorf("%d %s, %v", response.StatusCode, text, err)
	}
	fail(t, []string{"engine", "--model", dir, "--host", "gpu0"}, "--host is for a scenario's engines")
	fail(t, []string{"engine", "--threads", "2"}, "--threads is for --model")
	fail(t, []string{"engine", "--model", filepath.Join(dir, "none")}, "there is no folder", "gearshift models make")
	fail(t, []string{"engine", "--model", filepath.Join(dir, "small"), "--execution-provider", "tpu"}, `"tpu"`, "cpu or cuda")
	fail(t, []string{"engine", "--model", filepath.Join(dir, "small"), "--threads", "-1", "--addr", "nowhere"}, "--threads -1: want 1 or more")
	fail(t, []string{"engine", "--model", filepath.Join(dir, "small"), "--context", "-1", "--addr", "nowhere"}, "--context -1: want 2")
}

// Without the library the backend says how to get it, in one line.
func TestModelsWithoutLibrary(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// In a process of its own: this one may have loaded the library.
	c := exec.CommandContext(t.Context(), self, "serve", "--scenario", localTiny(t, makeTiny(t), ""), "--store", filepath.Join(t.TempDir(), "none.db"))
	c.Env = append(os.Environ(), "GEARSHIFT_TEST_MAIN=1", "GEARSHIFT_ONNXRUNTIME="+filepath.Join(t.TempDir(), "none.so"))
	out, err := c.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; err == nil || !strings.Contains(last, "replica small@gpu0: ") || !strings.Contains(last, "make onnxruntime") {
		t.Errorf("%v, %s", err, out)
	}
}
