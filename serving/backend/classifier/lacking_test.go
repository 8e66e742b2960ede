package classifier

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deaf is a fake of images alone.
type deaf struct{ fake }

func (*deaf) Layout() Layout { return Layout{Labels: 3, ImageSide: 4} }

// startDeaf starts an engine of images, which needs neither a tokenizer nor a rate.
func startDeaf(t *testing.T) *Engine {
	t.Helper()
	e, err := New(&deaf{}, nil, Config{Name: "deaf", Labels: []string{"text", "image", "audio"}, MaxBatch: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// A model that lacks modalities answers with those that it has.
func TestAModelOfOneModality(t *testing.T) {
	e := startDeaf(t)
	if status, text := ask(t, e, fmt.Sprintf(`{"image": %q, "input": "", "audio": ""}`, white(t, 4, 4))); status != http.StatusOK || !strings.Contains(text, `"modalities":["image"]`) {
		t.Errorf("an image: %d %s", status, text)
	}
	image := tensor("pixel_values", "FP32", "[1,3,4,4]", list(0.5, 48))
	if status, text := infer(t, e, `{"inputs":[`+image+`]}`); status != http.StatusOK || !strings.Contains(text, `"data":[0,5,0]`) {
		t.Errorf("an image as a tensor: %d %s", status, text)
	}
	if status, text := infer(t, e, `{"inputs":[`+image+`,`+tensor("modality_mask", "FP32", "[1,3]", "[0,1,0]")+`]}`); status != http.StatusOK {
		t.Errorf("a mask: %d %s", status, text)
	}
	names := ""
	for _, i := range e.Signature().Inputs {
		names += i.Name + " "
	}
	if names != "pixel_values modality_mask " {
		t.Errorf("its inputs are %s", names)
	}
}

// What it lacks is refused by name, with what it takes instead.
func TestWhatAModelLacksIsRefused(t *testing.T) {
	e := startDeaf(t)
	picture := white(t, 4, 4)
	for body, want := range map[string]string{
		`{}`:                 "nothing to classify; want",
		`{"input": "seven"}`: `the model deaf does not take \"input\"; it takes image`,
		fmt.Sprintf(`{"image": %q, "audio": "UklGRg=="}`, picture): `the model deaf does not take \"audio\"; it takes image`,
	} {
		if status, text := ask(t, e, body); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s, want %s", body, status, text, want)
		}
	}
	image := tensor("pixel_values", "FP32", "[1,3,4,4]", list(0.5, 48))
	for inputs, want := range map[string]string{
		tensor("text", "BYTES", "[1]", `["a"]`):                           `the model has no input \"text\"`,
		tensor("input_values", "FP32", "[1,10]", list(1, 10)):             `the model has no input \"input_values\"`,
		image + "," + tensor("modality_mask", "FP32", "[1,3]", "[1,1,0]"): "the row has no text",
		tensor("modality_mask", "FP32", "[1,3]", "[0,0,0]"):               "row 0 has no text, no image and no sound",
	} {
		if status, text := infer(t, e, `{"inputs":[`+inputs+`]}`); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", inputs, status, text, want)
		}
	}
	if _, err := New(&fake{size: 9}, nil, config()); err == nil || !strings.Contains(err.Error(), "there is no tokenizer") {
		t.Errorf("a model of text without a tokenizer: %v", err)
	}
}

// A folder without a vocabulary needs no tokenizer.
func TestAFolderWithoutText(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"id2label": {"0": "no", "1": "yes"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadFolder(dir); err != nil || f.Tokenizer != nil || len(f.Labels) != 2 {
		t.Errorf("%+v, %v", f, err)
	}
}
