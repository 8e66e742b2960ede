package models

import "gearshift/checkpoints/onnxfile"

// TextEncoder is the encoder of texts: the sum of what the tokens stand for, divided by the root of their number,
// then dense layers. The first layer of each position has a row of weights for each token, and its bias is added
// to the sum.
type TextEncoder struct {
	Context int      // tokens that a text may have
	Words   []string // tokens besides the 256 bytes, in the order of their numbers
	Layers
}

// Vocabulary counts the tokens.
func (e *TextEncoder) Vocabulary() int { return 256 + len(e.Words) }

// Tokenizer is the tokenizer.json of the encoder.
func (e *TextEncoder) Tokenizer() []byte { return WordTokenizer(e.Words) }

// WordTokenizer is the tokenizer.json of whole words: a word that is listed is one token, and any other is its
// bytes. The number of a byte is the byte's, and words follow.
func WordTokenizer(words []string) []byte {
	vocabulary, letters := map[string]int{}, byteLetters()
	for b, letter := range letters {
		vocabulary[string(letter)] = b
	}
	for i, word := range words {
		var spelt []rune
		for _, b := range []byte(word) {
			spelt = append(spelt, letters[b])
		}
		vocabulary[string(spelt)] = 256 + i
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return indented(" ", map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": []any{},
		"normalizer": nil, "pre_tokenizer": level, "post_processor": nil, "decoder": level,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": true, "vocab": vocabulary, "merges": []any{},
		},
	})
}

// text writes the encoder.
func (g *fusionGraph) text(e *TextEncoder) string {
	first := e.Each[0]
	width := len(first.Bias)
	g.Reals("text.tokens", first.Weights, e.Vocabulary(), width)
	g.Reals("text.bias", first.Bias, width)
	g.Reals("text.unit", []float32{1})
	g.Wholes("text.axis_2", []int64{2}, 1)
	mask := g.op("Cast", []string{AttentionMask}, onnxfile.Whole("to", onnxfile.Float32))
	rows := g.op("Mul", []string{g.gather("text.tokens", InputIDs), g.op("Unsqueeze", []string{mask, "text.axis_2"})})
	sum := g.op("ReduceSum", []string{rows, "axis_1"}, onnxfile.Whole("keepdims", 0))
	count := g.op("Max", []string{g.op("ReduceSum", []string{mask, "axis_1"}), "text.unit"})
	x := g.op("Relu", []string{g.add(g.op("Div", []string{sum, g.op("Sqrt", []string{count})}), "text.bias")})
	return g.whole("text", e.Whole, x, width)
}
