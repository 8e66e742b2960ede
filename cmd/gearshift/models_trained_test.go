//go:build !serveonly

package main

import (
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestModelsMakeDigitsRefuses(t *testing.T) {
	dir := t.TempDir()
	digits := func(more ...string) []string {
		return append([]string{"models", "make", "--family", "digits"}, more...)
	}
	fail(t, digits(), "--out DIR", "--samples DIR")
	fail(t, digits("--out", dir, "--steps", "0"), "--steps 0: want 1 or more")
	fail(t, digits("--out", dir, "--context", "64"), "--context is for models of text")
	fail(t, digits("--out", dir, "--concat"), "--concat is for models of text")
	fail(t, digits("--out", dir, "--size", "wide=3x2048"), "at most 1024 wide")
	fail(t, digits("--samples", filepath.Join(dir, "s"), "--sample-count", "0"), "--sample-count 0: want 1 to")
	fail(t, []string{"models", "make", "--out", dir, "--steps", "5"}, "--steps is for --family digits, boxes and subjects")
	fail(t, []string{"models", "make", "--out", dir, "--family", "classifier", "--samples", dir}, "--samples is for --family digits, boxes and subjects")
	fail(t, []string{"models", "make", "--samples", "s"}, "--samples is for --family digits, boxes and subjects; want gearshift models make --family digits --samples s")
	fail(t, []string{"models", "make", "--out", "m", "--steps", "5"}, "want gearshift models make --family digits --out m --steps 5")
}

func TestModelsMakeBoxesRefuses(t *testing.T) {
	dir := t.TempDir()
	boxes := func(more ...string) []string {
		return append([]string{"models", "make", "--family", "boxes"}, more...)
	}
	fail(t, boxes(), "--out DIR", "--samples DIR")
	fail(t, boxes("--out", dir, "--steps", "0"), "--steps 0: want 1 or more")
	fail(t, boxes("--out", dir, "--context", "64"), "--context is for models of text")
	fail(t, boxes("--out", dir, "--size", "wide=2x512"), "at most 256 wide")
	fail(t, boxes("--samples", filepath.Join(dir, "s"), "--sample-count", "0"), "--sample-count 0: want 1 or more")
}

// modelEngine starts an engine of a model.
func modelEngine(t *testing.T, model string) *engineProcess {
	t.Helper()
	p := startProcess(t, "engine", "--model", model, "--addr", "127.0.0.1:0")
	return &engineProcess{process: p, url: "http://" + p.listens(t)}
}

// A detector of boxes is made and served as a classifier of images is: an engine answers frames of samples with the numbers of all cells.
func TestBoxesAreServed(t *testing.T) {
	needONNX(t)
	dir := t.TempDir()
	samples := filepath.Join(dir, "samples")
	out := succeed(t, "models", "make", "--family", "boxes", "--out", dir, "--size", "tiny=1x16", "--steps", "3", "--samples", samples, "--sample-count", "2")
	for _, want := range []string{samples + ": 2 held-out frames", filepath.Join(dir, "tiny") + ": 0.", "drop = start + rate", "counted by the exported file"} {
		if !strings.Contains(out, want) {
			t.Errorf("models make prints %s; want %q", out, want)
		}
	}
	e := modelEngine(t, filepath.Join(dir, "tiny"))
	file, err := os.ReadFile(filepath.Join(samples, "0001.jpg"))
	if err != nil {
		t.Fatal(err)
	}
	e.expect(t, "POST", "/v1/gearshift/classify", fmt.Sprintf(`{"model": "tiny", "image": %q}`, base64.StdEncoding.EncodeToString(file)), http.StatusOK, `"modalities":["image"]`, `"num_classes":1280`)
	pixels := strings.TrimSuffix(strings.Repeat("0,", 3*128*128), ",")
	e.expect(t, "POST", "/v2/models/tiny/infer", `{"inputs": [{"name": "pixel_values", "datatype": "FP32", "shape": [1, 3, 128, 128], "data": [`+pixels+`]}]}`, http.StatusOK, `"shape":[1,1280]`)
}

// A model of digits is made, served, and answers samples as files; what it lacks, and
// what is truncated, is refused.
func TestDigitsAreServed(t *testing.T) {
	needONNX(t)
	dir := t.TempDir()
	samples := filepath.Join(dir, "samples")
	out := succeed(t, "models", "make", "--family", "digits", "--out", dir, "--size", "tiny=2x16", "--steps", "1", "--samples", samples, "--sample-count", "4")
	for _, want := range []string{samples + ": 4 held-out digits", filepath.Join(dir, "tiny") + ": 0.", "standard error", "quality: {tiny-image: 0."} {
		if !strings.Contains(out, want) {
			t.Errorf("models make prints %s; want %q", out, want)
		}
	}
	e := modelEngine(t, filepath.Join(dir, "tiny"))
	file, err := os.Open(filepath.Join(samples, "labels.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Fatalf("%v, %v", rows, err)
	}
	read := func(name string, cut int) string {
		data, err := os.ReadFile(filepath.Join(samples, name))
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(data[:len(data)-cut])
	}
	const path = "/v1/gearshift/classify"
	var inputs []string
	for _, row := range rows[1:] {
		inputs = append(inputs, fmt.Sprintf(`{"image": %q, "audio": %q}`, read(row[1], 0), read(row[2], 0)))
	}
	e.expect(t, "POST", path, `{"model": "tiny", "inputs": [`+strings.Join(inputs, ",")+`]}`, http.StatusOK, `"index":3`, `"modalities":["image","audio"]`)
	e.expect(t, "POST", path, fmt.Sprintf(`{"model": "tiny", "audio": %q}`, read(rows[1][2], 0)), http.StatusOK, `"modalities":["audio"]`)
	e.expect(t, "POST", path, fmt.Sprintf(`{"model": "tiny", "image": %q}`, read(rows[1][1], 40)), http.StatusBadRequest, "it is truncated")
	e.expect(t, "POST", path, fmt.Sprintf(`{"model": "tiny", "audio": %q}`, read(rows[1][2], 40)), http.StatusBadRequest, "it is truncated")
	e.expect(t, "POST", path, `{"model": "tiny", "input": "seven"}`, http.StatusBadRequest, "the model tiny does not take", "it takes image, audio")
	e.expect(t, "GET", "/v2/models/tiny", "", http.StatusOK, `"name":"pixel_values"`, `"shape":[-1,3,28,28]`, `"name":"input_values"`)
	e.expect(t, "GET", "/v1/models", "", http.StatusOK, `"tiny"`)
}

// Classifiers of texts are made and served: an engine names the subject of a sample, and takes no image.
func TestSubjectsAreServed(t *testing.T) {
	needONNX(t)
	dir := t.TempDir()
	samples := filepath.Join(dir, "samples")
	out := succeed(t, "models", "make", "--family", "subjects", "--out", dir, "--size", "tiny=1x16", "--samples", samples, "--sample-count", "3")
	for _, want := range []string{samples + ": 3 questions to fit by", filepath.Join(dir, "tiny") + ": 0.", "questions held out", "counted by the exported file", "quality: {tiny: 0."} {
		if !strings.Contains(out, want) {
			t.Errorf("models make prints %s; want %q", out, want)
		}
	}
	e := modelEngine(t, filepath.Join(dir, "tiny"))
	const path = "/v1/gearshift/classify"
	e.expect(t, "POST", path, `{"model": "tiny", "input": "Which article of the constitution limits the power of a court?"}`, http.StatusOK, `"modalities":["text"]`, `"num_classes":29`)
	e.expect(t, "POST", path, `{"model": "tiny", "image": "`+tinyPNG+`"}`, http.StatusBadRequest, "it takes text")
	fail(t, []string{"models", "make", "--family", "subjects"}, "--out DIR", "--samples DIR")
	fail(t, []string{"models", "make", "--family", "subjects", "--out", dir, "--size", "wide=1x6400"}, "at most 4096 wide")
	fail(t, []string{"models", "make", "--family", "subjects", "--samples", dir, "--sample-count", "0"}, "--sample-count 0: want 1 to")
}
