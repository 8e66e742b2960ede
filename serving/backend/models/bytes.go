package models

import "encoding/json"

// byteLetters is the letter that stands for each byte in a byte-level
// vocabulary, as GPT-2 has it: printable bytes stand for themselves, the others
// are moved up to U+0100 and beyond.
func byteLetters() (letters [256]rune) {
	next := rune(256)
	for b := range letters {
		r := rune(b)
		if r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®' && r <= 'ÿ' {
			letters[b] = r
			continue
		}
		letters[b] = next
		next++
	}
	return letters
}

// merges is how many pairs the tokenizer merges. They make one token of the word
// that gearshift replay fills its prompts with, so that a prompt of so many words
// is of as many tokens.
const merges = 4

func mergedPairs() [merges][2]string {
	return [merges][2]string{{"w", "o"}, {"wo", "r"}, {"wor", "d"}, {"Ġ", "word"}}
}

// tokenizerJSON is a byte-level BPE tokenizer in which almost every token is a
// byte, and its number the byte's.
func tokenizerJSON() []byte {
	vocabulary := map[string]int{}
	for b, letter := range byteLetters() {
		vocabulary[string(letter)] = b
	}
	var pairs []string
	for i, pair := range mergedPairs() {
		pairs = append(pairs, pair[0]+" "+pair[1])
		vocabulary[pair[0]+pair[1]] = 256 + i
	}
	var added []map[string]any
	for i, content := range []string{"<|bos|>", "<|endoftext|>", "<|pad|>"} {
		added = append(added, map[string]any{
			"id": BOS + i, "content": content, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		})
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	return indented(" ", map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added,
		"normalizer": nil, "pre_tokenizer": level, "post_processor": nil, "decoder": level,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": pairs,
		},
	})
}

// indented is the JSON of plain values, which always encode.
func indented(indent string, v map[string]any) []byte {
	b, err := json.MarshalIndent(v, "", indent)
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}
