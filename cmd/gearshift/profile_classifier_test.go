package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProfileMeasureClassifierRefuses(t *testing.T) {
	measuring := func(args ...string) []string {
		return append([]string{"profile", "measure", "--url", "http://127.0.0.1:1", "--modalities"}, args...)
	}
	fail(t, measuring("image,smell"), `--modalities: "smell"; want some of text, image and audio`)
	fail(t, measuring("image,image"), "image is there twice")
	fail(t, measuring("image", "--batches", "2,1"), "--batches [2 1]", "ascending")
	fail(t, measuring("image", "--time", "0s"), "--time 0s")
	fail(t, measuring("image", "--prompts", "16,32"), "--prompts is for language models")
	fail(t, measuring("image", "--date", "noon"), "--date", "YYYY-MM-DD")
	fail(t, measuring("image", "--out", filepath.Join(t.TempDir(), "none", "p.yaml")), "no such file or directory")
	fail(t, measuring("image"), "cannot reach http://127.0.0.1:1", "refused")
}

// What is measured is ready to be pasted into a scenario.
func TestProfileMeasureClassifier(t *testing.T) {
	asked := map[string]int{}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = io.WriteString(w, `{"data":[{"id":"digits"}]}`)
			return
		}
		var order struct {
			Model  string
			Inputs []struct{ Input, Image, Audio string }
		}
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || r.URL.Path != "/v1/gearshift/classify" || order.Model != "digits" {
			t.Errorf("%s %+v, %v", r.URL.Path, order, err)
		}
		name := ""
		for _, in := range order.Inputs[:1] {
			for n, given := range map[string]bool{"image": in.Image != "", "audio": in.Audio != "", "text": in.Input != ""} {
				if given {
					name += n
				}
			}
		}
		if len(name) > 5 {
			name = "both"
		}
		asked[name]++
		if name == "text" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error": {"message": "it takes image"}}`)
		}
	}))
	defer engine.Close()
	entries := succeed(t, "profile", "measure", "--url", engine.URL, "--modalities", "image,audio", "--time", "1ms", "--batches", "1,3")
	if asked["image"] < 4 || asked["audio"] < 4 || asked["both"] < 4 || len(asked) != 3 {
		t.Errorf("asked %v", asked)
	}
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := `name: mine
models: [{name: digits, memory: 40MiB, modalities: [image, audio]}]
tasks: [{name: digits, total_ms: 1000, quality: {digits-image: 0.72, digits-audio: 0.88, digits-image-audio: 0.95}}]
hosts: [{name: cpu0, memory: 2GiB}]
replicas: [{model: digits, hosts: [cpu0], memory: 20%}]
workload: {output_tokens: {distribution: none}}
` + entries
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, "scenario", "check", file); !strings.Contains(out, "digits-image-audio") {
		t.Errorf("%s", out)
	}
	fail(t, []string{"profile", "measure", "--url", engine.URL, "--modalities", "text"}, "cannot measure "+engine.URL, "status 400", "it takes image")
}
