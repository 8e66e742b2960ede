package families

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	"gearshift/workloads/subjects"
)

// studied trains a classifier of texts, and returns it with the parts of the questions.
func studied(t *testing.T, size models.Size, seed uint64, steps int) (*trainedSubjects, *subjects.Split) {
	t.Helper()
	set, err := subjects.Load()
	if err != nil {
		t.Fatal(err)
	}
	split := set.Split(seed)
	tr, err := trainSubjects(t.Context(), size, set, split, seed, steps, func(supervised.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return tr, split
}

// right is the share of the questions that the network answers rightly.
func (t *trainedSubjects) right(questions []subjects.Question) float64 {
	n := 0.0
	for _, q := range questions {
		if t.classify(q.Prompt) == q.Label {
			n++
		}
	}
	return n / float64(len(questions))
}

// A wider model, which knows more words, is right more often on questions that it has not seen; the narrow one
// more often than by chance, which is 1 of 29.
func TestAWiderModelKnowsMoreSubjects(t *testing.T) {
	narrow, split := studied(t, models.Size{Name: "narrow", Layers: 1, Width: 16}, 1, 400)
	wide, _ := studied(t, models.Size{Name: "wide", Layers: 1, Width: 128}, 1, 200)
	small, large := narrow.right(split.HeldOut), wide.right(split.HeldOut)
	t.Logf("accuracies %.3f and %.3f", small, large)
	if small < 0.25 || large < small+0.1 {
		t.Errorf("the narrow model is right in %.3f, the wide one in %.3f", small, large)
	}
}

// The same seed gives the same files, to the byte, and another seed others.
func TestMakingSubjectsRepeats(t *testing.T) {
	made := func(seed uint64) map[string][]byte {
		tr, _ := studied(t, models.Size{Name: "m", Layers: 2, Width: 8}, seed, 3)
		return tr.fusion().Files()
	}
	first, again, other := made(1), made(1), made(2)
	for name := range first {
		if !bytes.Equal(first[name], again[name]) {
			t.Errorf("the same seed gave two %s", name)
		}
	}
	if bytes.Equal(first["model.onnx"], other["model.onnx"]) {
		t.Error("two seeds gave the same model")
	}
}

// The exported files compute from text what the trained network computes.
func TestExportOfSubjectsEqualsTheNetwork(t *testing.T) {
	findONNX(t)
	if err := onnxruntime.Available(); err != nil {
		t.Skipf("no ONNX Runtime to run the exported file; `make onnxruntime` fetches it: %v", err)
	}
	tr, split := studied(t, models.Size{Name: "m", Layers: 3, Width: 24}, 1, 20)
	folder := filepath.Join(t.TempDir(), "m")
	if err := models.Write(folder, tr.fusion().Files(), false); err != nil {
		t.Fatal(err)
	}
	engine, err := onnxruntime.New(onnxruntime.Config{Local: scenario.Local{Path: folder, MaxSequences: 4}, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	const rows = 3 // of different lengths, so that the shorter ones are padded
	var texts []any
	var want []float32
	for _, q := range split.HeldOut[:rows] {
		texts = append(texts, q.Prompt)
		x := make([]float32, len(tr.weights))
		tr.features(x, tr.tokenizer.Prompt(q.Prompt))
		want = append(want, tr.network.Logits([][]float32{x})...)
	}
	got := infer(t, engine, []map[string]any{{"name": "text", "datatype": "BYTES", "shape": []int{rows}, "data": texts}})
	if len(got) != len(want) {
		t.Fatalf("%d logits, want %d", len(got), len(want))
	}
	for i := range want {
		if by := math.Abs(float64(got[i] - want[i])); by > 1e-3 {
			t.Errorf("logit %d: %v, want %v, %g off", i, got[i], want[i], by)
		}
	}
}

// A made model has its files and says what was counted, and what cannot be made is refused before it is trained.
func TestMakeSubjects(t *testing.T) {
	findONNX(t)
	dir := t.TempDir()
	o := MakeOptions{Dir: dir, Size: models.Size{Name: "tiny", Layers: 1, Width: 8}, Seed: 1, Steps: 2, Progress: func(string) {}}
	m, err := MakeSubjects(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model.onnx", "config.json", "tokenizer.json", QualityFile} {
		if _, err := os.Stat(filepath.Join(dir, "tiny", name)); err != nil {
			t.Error(err)
		}
	}
	if text := m.Quality.Lines(); !strings.Contains(text, "questions held out") || !strings.Contains(text, "quality: {tiny: 0.") {
		t.Errorf("it prints %s", text)
	}
	if _, err := MakeSubjects(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--force replaces it") {
		t.Errorf("a folder that is there: %v", err)
	}
	o.Size = models.Size{Name: "wide", Layers: 1, Width: 8192}
	if _, err := MakeSubjects(t.Context(), o); err == nil || !strings.Contains(err.Error(), "at most 4096 wide") {
		t.Errorf("too wide a model: %v", err)
	}
}

// Samples are the questions of both parts that no model was trained by, as lines of prompt and group.
func TestSamplesOfSubjects(t *testing.T) {
	dir := t.TempDir()
	s := Samples{Dir: dir, Count: 20, Seed: 1}
	if err := s.WriteSubjects(); err != nil {
		t.Fatal(err)
	}
	set, err := subjects.Load()
	if err != nil {
		t.Fatal(err)
	}
	split := set.Split(1)
	for name, part := range map[string][]subjects.Question{FittingFile: split.Fitting, HeldOutFile: split.HeldOut} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(lines) != 20 || !strings.Contains(lines[3], `"group":"`+part[3].Group+`"`) {
			t.Errorf("%s has %d lines, such as %s", name, len(lines), lines[3])
		}
	}
	if err := s.WriteSubjects(); err == nil || !strings.Contains(err.Error(), "--force replaces it") {
		t.Errorf("samples that are there: %v", err)
	}
	s.Force, s.Count = true, 1_000_000
	if err := s.WriteSubjects(); err == nil || !strings.Contains(err.Error(), "--sample-count 1000000: want 1 to") {
		t.Errorf("too many samples: %v", err)
	}
}
