package families

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	data "gearshift/workloads/digits"
)

var tinyDigits = models.Size{Name: "tiny", Layers: 2, Width: 16}

// findONNX names the library that `make onnxruntime` fetches, if it is there.
func findONNX(t *testing.T) {
	t.Helper()
	path, err := filepath.Abs("../../.cache/onnxruntime/libonnxruntime.so.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil && os.Getenv("GEARSHIFT_ONNXRUNTIME") == "" {
		t.Setenv("GEARSHIFT_ONNXRUNTIME", path)
	}
}

// learn trains a network of the size.
func learn(t *testing.T, size models.Size, seed uint64, steps int) *trainedDigits {
	t.Helper()
	set, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newShape(size)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trainDigits(t.Context(), s, set.Split(seed), seed, steps, func(supervised.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// A short training is better than chance with each subset, and best with both, on digits
// that it has not seen. A tenth would be chance.
func TestShortTrainingLearns(t *testing.T) {
	tr := learn(t, models.Size{Name: "small", Layers: 2, Width: 64}, 1, 80)
	const examples = 400
	q := &DigitsQuality{Model: "small", parameters: []int{1, 1}}
	var accuracies []float64
	for subset := 1; subset <= allInputs; subset++ {
		a, err := q.accuracy(tr.split, data.Validation, subset, examples, func(p data.Part, subset, first, n int) ([]int, error) {
			return tr.classify(p, subset, first, n), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		accuracies = append(accuracies, a.Accuracy)
	}
	t.Logf("accuracies %.3f", accuracies)
	if accuracies[0] < 0.25 || accuracies[1] < 0.25 || accuracies[2] < max(accuracies[0], accuracies[1]) {
		t.Errorf("with image, sound and both: %.3f", accuracies)
	}
}

// The same seed gives the same file, to the byte, and another seed another.
func TestMakingRepeats(t *testing.T) {
	made := func(seed uint64) []byte {
		tr := learn(t, tinyDigits, seed, 3)
		return tr.fusion(tr.network).Files()["model.onnx"]
	}
	first := made(1)
	if !bytes.Equal(first, made(1)) {
		t.Error("the same seed gave two models")
	}
	if bytes.Equal(first, made(2)) {
		t.Error("two seeds gave the same model")
	}
}

// The exported file computes what the trained network computes, from raw pixels and
// samples, with each subset of the inputs.
func TestExportEqualsTheNetwork(t *testing.T) {
	findONNX(t)
	if err := onnxruntime.Available(); err != nil {
		t.Skipf("no ONNX Runtime to run the exported file; `make onnxruntime` fetches it: %v", err)
	}
	tr := learn(t, models.Size{Name: "m", Layers: 3, Width: 24}, 1, 5)
	dir := t.TempDir()
	if err := models.Write(filepath.Join(dir, "m"), tr.fusion(tr.network).Files(), false); err != nil {
		t.Fatal(err)
	}
	engine, err := onnxruntime.New(onnxruntime.Config{Local: scenario.Local{Path: filepath.Join(dir, "m"), MaxSequences: 4}, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	const rows = 3
	e := tr.free.Get().(*scratch)
	for subset := 1; subset <= allInputs; subset++ {
		features := make([][]float32, len(modalities))
		var pixels, samples []float32
		for i, part := range tr.network.Parts {
			if subset>>i&1 == 1 {
				features[i] = make([]float32, rows*part.Features())
			}
		}
		for r := range rows {
			tr.split.Example(&e.Example, data.Validation, r)
			row := make([][]float32, len(features))
			for i, part := range tr.network.Parts {
				if features[i] != nil {
					row[i] = features[i][r*part.Features():][:part.Features()]
				}
			}
			e.features(tr.reader, row)
			for range 3 {
				for _, b := range e.Pixels {
					pixels = append(pixels, gray(b))
				}
			}
			for _, v := range e.Samples {
				samples = append(samples, amplitude(v))
			}
		}
		want := tr.network.Logits(features)
		var inputs []map[string]any
		if subset&withImage != 0 {
			inputs = append(inputs, tensor("pixel_values", pixels, rows, 3, data.Side, data.Side))
		}
		if subset&withAudio != 0 {
			inputs = append(inputs, tensor("input_values", samples, rows, data.Samples))
		}
		got := infer(t, engine, inputs)
		if len(got) != len(want) {
			t.Fatalf("subset %d: %d logits, want %d", subset, len(got), len(want))
		}
		for i := range want {
			if by := math.Abs(float64(got[i] - want[i])); by > 1e-4 {
				t.Errorf("subset %d, logit %d: %v, want %v, %g off", subset, i, got[i], want[i], by)
			}
		}
	}
}

func tensor(name string, values []float32, shape ...int) map[string]any {
	return map[string]any{"name": name, "datatype": "FP32", "shape": shape, "data": values}
}

// infer asks by the Open Inference Protocol.
func infer(t *testing.T, engine http.RoundTripper, inputs []map[string]any) []float32 {
	t.Helper()
	body, err := json.Marshal(map[string]any{"inputs": inputs})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/m/infer", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := engine.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var answer struct{ Outputs []struct{ Data []float32 } }
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil || len(answer.Outputs) != 1 {
		t.Fatalf("%.200s, %v", text, err)
	}
	return answer.Outputs[0].Data
}

// A made model has its files, its table says what was counted, and it is not trained
// where it could not be written.
func TestMake(t *testing.T) {
	findONNX(t)
	dir := t.TempDir()
	var lines []string
	o := MakeOptions{Dir: dir, Size: tinyDigits, Seed: 1, Steps: 2, Progress: func(line string) { lines = append(lines, line) }}
	m, err := MakeDigits(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tiny", QualityFile))
	var q DigitsQuality
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil || len(q.HeldOut) != allInputs || len(q.Unheard) != 2 || q.Seed != 1 || q.Steps != 2 || m.Parameters < 1000 {
		t.Errorf("%+v, %v", q, err)
	}
	for i, want := range []string{"tiny-image", "tiny-audio", "tiny-image-audio"} {
		if a := q.HeldOut[i]; a.Variant != want || a.Requests < 1900 || a.Accuracy != float64(a.Right)/float64(a.Requests) || a.StandardError <= 0 {
			t.Errorf("%+v, want %s", a, want)
		}
		if !strings.Contains(m.Quality.Lines(), want+": 0.") {
			t.Errorf("%s does not have %s", m.Quality.Lines(), want)
		}
	}
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "step 2 of 2: loss 2.") || !strings.Contains(all, "image and audio: 0.") {
		t.Errorf("progress is %s", all)
	}
	if a, b, both := q.HeldOut[0].MemoryBytes, q.HeldOut[1].MemoryBytes, q.HeldOut[2].MemoryBytes; both != a+b-working || both != 4*int64(m.Parameters)+working {
		t.Errorf("memory is %d, %d and %d", a, b, both)
	}
	for _, name := range []string{"model.onnx", "config.json"} {
		if _, err := os.Stat(filepath.Join(dir, "tiny", name)); err != nil {
			t.Error(err)
		}
	}
	lines = nil
	if _, err := MakeDigits(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--force replaces it") || lines != nil {
		t.Errorf("again: %v, %v", err, lines)
	}
	o.Size.Width = 2048
	if _, err := MakeDigits(t.Context(), o); err == nil || !strings.Contains(err.Error(), "at most 1024 wide") {
		t.Errorf("a wide one: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.Size, o.Force = tinyDigits, true
	if _, err := MakeDigits(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// Draws that come one by one have the error of a proportion, and those that come together
// count as one.
func TestStandardErrors(t *testing.T) {
	one := map[int][]bool{}
	for i := range 100 {
		one[i] = []bool{i < 80}
	}
	if got := clusteredError(one, 0.8, 100); math.Abs(got-0.04) > 1e-9 {
		t.Errorf("one by one: %v, want 0.04", got)
	}
	four := map[int][]bool{}
	for i := range 25 {
		right := i < 20
		four[i] = []bool{right, right, right, right}
	}
	if got := clusteredError(four, 0.8, 100); math.Abs(got-0.08) > 1e-9 {
		t.Errorf("four at once: %v, want 0.08", got)
	}
}

// Samples are the held-out examples, as a client reads them.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	s := Samples{Dir: filepath.Join(dir, "s"), Count: 3, Seed: 2}
	if err := s.WriteDigits(); err != nil {
		t.Fatal(err)
	}
	set, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	split := set.Split(2)
	file, err := os.Open(filepath.Join(dir, "s", "labels.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 4 || strings.Join(rows[0], ",") != "label,image,audio,speaker" {
		t.Fatalf("%v, %v", rows, err)
	}
	e := new(data.Example)
	for i, row := range rows[1:] {
		split.Example(e, data.HeldOut, i)
		picture, err := os.Open(filepath.Join(dir, "s", row[1]))
		if err != nil {
			t.Fatal(err)
		}
		defer picture.Close()
		decoded, err := png.Decode(picture)
		if err != nil {
			t.Fatal(err)
		}
		for k, b := range e.Pixels {
			if v, _, _, _ := decoded.At(k%data.Side, k/data.Side).RGBA(); byte(v>>8) != b {
				t.Fatalf("sample %d: pixel %d is %d, want %d", i, k, v>>8, b)
			}
		}
		sound, err := os.ReadFile(filepath.Join(dir, "s", row[2]))
		if err != nil {
			t.Fatal(err)
		}
		var samples [data.Samples]int16
		if err := binary.Read(bytes.NewReader(sound[44:]), binary.LittleEndian, &samples); err != nil || samples != e.Samples || row[0] != fmt.Sprint(e.Label) {
			t.Errorf("sample %d is another sound, or label %s is not %d: %v", i, row[0], e.Label, err)
		}
	}
	if err := s.WriteDigits(); err == nil || !strings.Contains(err.Error(), "--force replaces it") {
		t.Errorf("again: %v", err)
	}
	if s.Force, s.Count = true, 1e6; s.WriteDigits() == nil {
		t.Error("a million samples are written")
	}
}
