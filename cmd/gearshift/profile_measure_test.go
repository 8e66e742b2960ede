package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"gearshift/internal/calibrate/loadgen"
)

// Each fault is one line, and nothing is written.
func TestProfileMeasureRefuses(t *testing.T) {
	out := t.TempDir() + "/profile.yaml"
	measuring := func(args ...string) []string {
		return append([]string{"profile", "measure", "--out", out}, args...)
	}
	nobody := "http://127.0.0.1:1"
	fail(t, measuring(), "--url URL is missing")
	fail(t, measuring("--url", "127.0.0.1:8000"), "--url", "want the URL of an engine")
	fail(t, measuring("--url", nobody), "cannot reach "+nobody, "refused")
	fail(t, measuring("--url", nobody, "--neighbour", "x"), "--neighbour", "URL=MODEL")
	fail(t, measuring("--url", nobody+"=a", "--neighbour", nobody+"=a"), "the engine to be measured itself")
	fail(t, measuring("--url", nobody, "--batches", "4,1"), "--batches [4 1]", "ascending")
	fail(t, measuring("--url", nobody, "--prompts", "16"), "--prompts [16]", "at least two")
	fail(t, measuring("--url", nobody, "--output", "2"), "--output 2", "at least 4")
	fail(t, measuring("--url", nobody, "--time", "0s"), "--time 0s")
	fail(t, measuring("--url", nobody, "--model-bytes", "-1"), "--model-bytes -1 is negative")
	fail(t, measuring("--url", nobody, "--date", "noon"), "--date", "YYYY-MM-DD")
	fail(t, measuring("--url", nobody, "--scenario", "none"), `"none"`)
	folder := t.TempDir()
	fail(t, measuring("--url", nobody, "--out", folder+"/none/p.yaml"), "--out "+folder, "no such file or directory")
	fail(t, measuring("--url", nobody, "--out", folder), "--out "+folder+" is a folder")
	fail(t, measuring("--url", nobody, "--log", folder+"/none/l.jsonl"), "--log "+folder, "no such file or directory")
	fail(t, measuring("--url", nobody, "--api-key-env", "NO_SUCH_KEY"), "NO_SUCH_KEY", "empty")

	two := serverOf(t, `{"data":[{"id":"a"},{"id":"b"}]}`, nil)
	fail(t, measuring("--url", two), "it has several models; name one of a, b")
	fail(t, measuring("--url", two, "--model", "c"), `no model "c"; it has a, b`)
	fail(t, measuring("--url", serverOf(t, `[]`, nil)), "OpenAI-compatible")
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}

// An engine that takes long to warm up is no reason to say that it does not stream.
func TestMeasureWaitsForAColdEngine(t *testing.T) {
	asked := 0
	url := serverOf(t, `{"data":[{"id":"a"}]}`, func(w http.ResponseWriter, words int) {
		if asked++; asked == 1 {
			time.Sleep(300 * time.Millisecond)
		}
		for range 4 {
			fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintf(w, `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":4}}`+"\n\ndata: [DONE]\n\n", words)
	})
	if _, err := loadgen.NewClient(t.Context(), []loadgen.Target{{URL: url}}, 0, nil); err != nil {
		t.Error(err)
	}
}

// An engine that stops in the midst, that does not stream, or does not count.
func TestProfileMeasureOfBadEngines(t *testing.T) {
	const models = `{"data":[{"id":"a"}]}`
	event := func(text string) string { return `data: {"choices":[{"delta":{"content":"` + text + `"}}]}` + "\n\n" }
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}` + "\n\ndata: [DONE]\n\n"
	asked := 0
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, words int)
		want   string
	}{
		"breaks off": {func(w http.ResponseWriter, words int) {
			if asked++; asked > 6 {
				fmt.Fprint(w, event("x"))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			for range 4 {
				fmt.Fprint(w, event("x"))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(2 * time.Millisecond)
			}
			fmt.Fprintf(w, usage, words, 4)
		}, "went away"},
		"at once": {func(w http.ResponseWriter, words int) {
			time.Sleep(20 * time.Millisecond)
			fmt.Fprintf(w, event("x")+event("x")+usage, words, 2)
		}, "does not stream"},
		"no usage":   {func(w http.ResponseWriter, _ int) { fmt.Fprint(w, event("x")+"data: [DONE]\n\n") }, "does not tell the tokens"},
		"no content": {func(w http.ResponseWriter, words int) { fmt.Fprintf(w, usage, words, 2) }, "has no content"},
		"an error": {func(w http.ResponseWriter, _ int) {
			http.Error(w, `{"error":{"message":"out of memory"}}`, http.StatusInternalServerError)
		}, "500"},
		"always full": {func(w http.ResponseWriter, _ int) {
			http.Error(w, `{"error":{"message":"full"}}`, http.StatusTooManyRequests)
		}, "full"},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir() + "/profile.yaml"
			fail(t, []string{"profile", "measure", "--url", serverOf(t, models, c.answer), "--out", out, "--time", "5s"}, c.want)
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

// serverOf is a server with a list of models, whose answers a function gives that
// is told the words of the prompt.
func serverOf(t *testing.T, models string, answer func(w http.ResponseWriter, words int)) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, models) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer(w, strings.Count(string(body), " ")+1)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}
