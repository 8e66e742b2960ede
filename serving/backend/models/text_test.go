package models

import (
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints/onnxfile"
	"gearshift/serving/backend/tokenizer"
)

// A listed word is one token after the bytes, and any other text is its bytes.
func TestWordTokenizer(t *testing.T) {
	tok, err := tokenizer.Parse(WordTokenizer([]string{" law", "The", " é"}))
	if err != nil {
		t.Fatal(err)
	}
	if tok.Size() != 259 {
		t.Errorf("%d tokens, want 259", tok.Size())
	}
	want := []int64{257, 256, ' ', 'l', 'a', 'w', 's', 258, '!'}
	if got := tok.Prompt("The law laws é!"); !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
}

// A model of text has the inputs of text, a tokenizer, and in its configuration the vocabulary and the context.
func TestFusionOfText(t *testing.T) {
	e := &TextEncoder{Context: 8, Words: []string{" law"}}
	e.Each = []Dense{{make([]float32, 257*4), make([]float32, 4)}}
	e.Whole = []Dense{{make([]float32, 4*2), make([]float32, 2)}}
	f := &Fusion{Labels: []string{"a", "b"}, Text: e}
	if want := (257*4 + 4) + (4*2 + 2); f.Parameters() != want {
		t.Errorf("%d parameters, want %d", f.Parameters(), want)
	}
	inputs, outputs, err := onnxfile.Signature(f.ONNX())
	var names []string
	for _, i := range inputs {
		names = append(names, i.Name)
	}
	if want := []string{ModalityMask, InputIDs, AttentionMask}; err != nil || !slices.Equal(names, want) || len(outputs) != 1 || outputs[0].Dims[1] != 2 {
		t.Errorf("inputs %v, outputs %v, %v; want %v", names, outputs, err, want)
	}
	files := f.Files()
	config := string(files["config.json"])
	if !strings.Contains(config, `"vocab_size": 257`) || !strings.Contains(config, `"max_position_embeddings": 8`) {
		t.Errorf("config.json is %s", config)
	}
	if tok, err := tokenizer.Parse(files["tokenizer.json"]); err != nil || tok.Size() != e.Vocabulary() {
		t.Errorf("tokenizer.json: %v", err)
	}
}
