package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// adders returns a server of two models that add what a prompt lists. The small one adds the first three alone.
func adders(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"large"},{"id":"small"}]}`)
			return
		}
		var body struct {
			Model    string
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		sum := 0
		for i, word := range strings.Fields(body.Messages[0].Content)[1:] {
			var n int
			if fmt.Sscan(word, &n); body.Model == "large" || i < 3 {
				sum += n
			}
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"The sum is %d."},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":8}}`, sum)
	}))
	t.Cleanup(server.Close)
	return server
}

// From prompts to a predictor by the commands: engines that fail on long lists are found out from the prompts' form.
func TestLabelsOfEnginesAreWorthAFit(t *testing.T) {
	var prompts strings.Builder
	for i := range 120 {
		list, sum := "Add", 0
		for j := range 2 + 4*(i%2) {
			list, sum = fmt.Sprintf("%s %d", list, i+j), sum+i+j
		}
		fmt.Fprintf(&prompts, "{\"prompt\": %q, \"answer\": %d}\n", list, sum)
	}
	dir, engines := t.TempDir(), adders(t)
	data := filepath.Join(dir, "labels.jsonl")
	sample := []string{"quality", "sample", "--prompts", write(t, "prompts.jsonl", prompts.String()), "--score", "number", "--out", data,
		"--engine", "large=" + engines.URL, "--engine", "small=" + engines.URL}
	if out := succeed(t, append(sample, "--limit", "50")...); !strings.HasPrefix(out, "labelled 50 of 50 prompts with 2800 tokens\n") {
		t.Errorf("the first run printed\n%s", out)
	}
	if out := succeed(t, sample...); !strings.HasPrefix(out, "labelled 70 of 70 prompts with 3920 tokens\n") {
		t.Errorf("the second run printed\n%s", out)
	}
	out := succeed(t, "quality", "fit", "--data", data, "--name", "mine", "--store", filepath.Join(dir, "store.db"))
	if !strings.Contains(out, "mine@1: 120 labelled prompts, 2 models") || !strings.Contains(out, ": enough labels") {
		t.Errorf("fit printed\n%s\nwant a gain above zero", out)
	}
}
