package models

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints/onnxfile"
	"gearshift/serving/backend/tokenizer"
)

var tiny = Size{Name: "tiny", Layers: 2, Width: 8}

func TestParseSize(t *testing.T) {
	if s, err := ParseSize("opt-125m=12x768"); err != nil || s != (Size{"opt-125m", 12, 768}) {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"":              "is no size; want NAME=LAYERSxWIDTH",
		"tiny":          "is no size",
		"=2x8":          "is no size",
		"../up=2x8":     "is no size",
		".hidden=2x8":   "is no size",
		"tiny=2":        "is no size",
		"tiny=2x8x8":    "is no size",
		"tiny=0x8":      "want 1 to 96 layers",
		"tiny=2x100":    "a multiple of 8, and above 64 of that",
		"tiny=2x72":     "and above 64 of that",
		"tiny=2x12":     "a multiple of 8",
		"tiny=2x100000": "a width from 8 to 8192",
		"xl=24x2048":    "some 1207 million parameters; want at most 500",
	} {
		if _, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// A seed gives the same files, and each size of a family has weights of its own.
func TestDecodersRepeat(t *testing.T) {
	first := NewDecoder(tiny, 16, 7)
	if !bytes.Equal(first.ONNX(), NewDecoder(tiny, 16, 7).ONNX()) {
		t.Error("the same seed gave two models")
	}
	if bytes.Equal(first.ONNX(), NewDecoder(tiny, 16, 8).ONNX()) {
		t.Error("two seeds gave the same model")
	}
	n := len(first.Tokens) + len(first.Positions) + len(first.Norm.Gain) + len(first.Norm.Offset) + len(first.Head)
	for _, b := range first.Blocks {
		for _, w := range [][]float32{
			b.Before.Gain, b.Before.Offset, b.Between.Gain, b.Between.Offset, b.Attention.Weights, b.Attention.Bias,
			b.Merge.Weights, b.Merge.Bias, b.Expand.Weights, b.Expand.Bias, b.Contract.Weights, b.Contract.Bias,
		} {
			n += len(w)
		}
	}
	if n != first.Parameters() {
		t.Errorf("%d parameters, said to be %d", n, first.Parameters())
	}
}

// A decoder's attention is ONNX Runtime's own, unless plain operators are asked for.
func TestAttentions(t *testing.T) {
	d := NewDecoder(tiny, 16, 7)
	for _, concat := range []bool{false, true} {
		d.Concat = concat
		for operator, want := range map[string]bool{"GroupQueryAttention": !concat, "Concat": concat, "Softmax": concat} {
			if found, err := onnxfile.Uses(d.ONNX(), operator); err != nil || found != want {
				t.Errorf("concat %v: %s is there: %v, %v", concat, operator, found, err)
			}
		}
	}
}

// The same holds of classifiers.
func TestClassifiersRepeat(t *testing.T) {
	first := NewClassifier(tiny, 16, 7)
	if !bytes.Equal(first.ONNX(), NewClassifier(tiny, 16, 7).ONNX()) {
		t.Error("the same seed gave two models")
	}
	if bytes.Equal(first.ONNX(), NewClassifier(tiny, 16, 8).ONNX()) {
		t.Error("two seeds gave the same model")
	}
	n := 0
	for _, s := range Classifiers() {
		if p := NewClassifier(s, 16, 0).Parameters(); p < 3*n {
			t.Errorf("%s has %d parameters, the size before it %d", s.Name, p, n)
		} else {
			n = p
		}
	}
}

// The image classifiers are of five families, from 4 to 400 MB, and each larger one of a family is
// larger. A seed gives one file.
func TestImageClassifiers(t *testing.T) {
	families, before := map[string]int{}, map[string]int{}
	for _, s := range ImageClassifiers() {
		family, _, _ := strings.Cut(s.Name, "-")
		families[family]++
		n := 4 * (&ImageClassifier{Size: s}).Parameters()
		if n < 4e6 || n > 410e6 || n <= before[family] {
			t.Errorf("%s takes %d bytes, the one before it %d", s.Name, n, before[family])
		}
		before[family] = n
	}
	if len(families) != 5 || len(ImageClassifiers()) != 27 {
		t.Errorf("families %v", families)
	}
	first := (&ImageClassifier{tiny, 7}).ONNX()
	if !bytes.Equal(first, (&ImageClassifier{tiny, 7}).ONNX()) || bytes.Equal(first, (&ImageClassifier{tiny, 8}).ONNX()) {
		t.Error("a seed does not give one model, or two seeds do")
	}
	if n := (&ImageClassifier{Size: tiny}).Parameters(); len(first) < 4*n || len(first) > 4*n+8000 {
		t.Errorf("%d parameters, and a file of %d bytes", n, len(first))
	}
	large := Options{Sizes: []Size{{"huge", 96, 512}}}
	if err := MakeImageClassifiers(t.Context(), t.TempDir(), large, nil); err == nil || !strings.Contains(err.Error(), "huge=96x512 has some") {
		t.Errorf("a model of 6 GB: %v", err)
	}
}

// The sizes of the family are far apart in what a token costs.
func TestDecodersDiffer(t *testing.T) {
	var list []int
	for _, s := range Decoders() {
		list = append(list, s.Layers*s.Width*s.Width)
	}
	if list[1] < 2*list[0] || list[2] < 2*list[1] {
		t.Errorf("layers × width² are %v", list)
	}
}

// The files of a folder agree with each other, and with what Optimum exports.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	var made []string
	o := Options{Sizes: []Size{tiny, {"other", 1, 128}}, Context: 16}
	if err := MakeDecoders(t.Context(), dir, o, func(folder string, _ int) { made = append(made, folder) }); err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "tiny"), filepath.Join(dir, "other")}; !slices.Equal(made, want) {
		t.Errorf("made %v, want %v", made, want)
	}
	var config struct {
		Layers     int `json:"n_layer"`
		Heads      int `json:"n_head"`
		Width      int `json:"n_embd"`
		Positions  int `json:"n_positions"`
		Vocabulary int `json:"vocab_size"`
		EOS        int `json:"eos_token_id"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "other", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &config); err != nil || config.Layers != 1 || config.Heads != 2 || config.Width != 128 || config.Positions != 16 {
		t.Errorf("config %+v, %v", config, err)
	}
	tok, err := tokenizer.Load(filepath.Join(dir, "other", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := tok.ID("<|endoftext|>"); tok.Size() != config.Vocabulary || !ok || int(id) != config.EOS {
		t.Errorf("%d tokens, the end is %d; the configuration says %d and %d", tok.Size(), id, config.Vocabulary, config.EOS)
	}
	if data, err = os.ReadFile(filepath.Join(dir, "other", "model.onnx")); err != nil {
		t.Fatal(err)
	}
	inputs, outputs, err := onnxfile.Signature(data)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range append(inputs, outputs...) {
		names = append(names, v.Name)
	}
	want := []string{"input_ids", "attention_mask", "position_ids", "past_key_values.0.key", "past_key_values.0.value", "logits", "present.0.key", "present.0.value"}
	if !slices.Equal(names, want) || !slices.Equal(inputs[3].Dims, []int64{-1, 2, -1, 64}) || !slices.Equal(outputs[0].Dims, []int64{-1, -1, Vocabulary}) {
		t.Errorf("inputs %v, outputs %v", inputs, outputs)
	}
}

// A prompt of the words that replays send has as many tokens as words.
func TestReplayedWordsAreTokens(t *testing.T) {
	tok, err := tokenizer.Parse(tokenizerJSON())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tok.Encode(nil, strings.TrimSpace(strings.Repeat("word ", 50)))); n != 50 {
		t.Errorf("50 words are %d tokens", n)
	}
}

// What is there is replaced when asked, and nothing else is ever removed.
func TestForce(t *testing.T) {
	dir := t.TempDir()
	o := Options{Sizes: []Size{tiny}, Context: 16}
	write := func() error { return MakeDecoders(t.Context(), dir, o, func(string, int) {}) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if err := write(); err == nil || !strings.Contains(err.Error(), "--force replaces it") {
		t.Errorf("a second time: %v", err)
	}
	if o.Force = true; write() != nil {
		t.Error("it is not replaced")
	}
	mine := filepath.Join(dir, "tiny", "mine.txt")
	if err := os.WriteFile(mine, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(); err == nil || !strings.Contains(err.Error(), "mine.txt") {
		t.Errorf("a folder with another file is replaced: %v", err)
	}
	for _, name := range []string{"mine.txt", "model.onnx", "config.json", "tokenizer.json"} {
		if _, err := os.Stat(filepath.Join(dir, "tiny", name)); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".partial-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
