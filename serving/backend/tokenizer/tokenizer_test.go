package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// build is the JSON of a tokenizer of all bytes, the merges, and special tokens;
// change may spoil it.
func build(t testing.TB, merges []string, change func(map[string]any)) []byte {
	t.Helper()
	vocabulary := map[string]int{}
	for b, letter := range letters() {
		vocabulary[string(letter)] = b
	}
	for i, m := range merges {
		vocabulary[strings.Replace(m, " ", "", 1)] = 256 + i
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
	f := map[string]any{
		"added_tokens": []any{
			map[string]any{"id": len(vocabulary), "content": "<s>", "special": true},
			map[string]any{"id": len(vocabulary) + 1, "content": "<s>x", "special": false},
		},
		"pre_tokenizer": maps.Clone(level), "decoder": maps.Clone(level),
		"model": map[string]any{"type": "BPE", "vocab": vocabulary, "merges": merges},
	}
	if change != nil {
		change(f)
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t testing.TB, data []byte) *Tokenizer {
	t.Helper()
	tok, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

var merges = []string{"a b", "b c", "ab c", "Ġ abc", "c c", "cc cc", "Ã ©"}

func TestEncode(t *testing.T) {
	tok := parse(t, build(t, merges, nil))
	for text, want := range map[string][]int64{
		"":             nil,
		"ab":           {256},
		"abc":          {258}, // a b before b c
		"bc":           {257}, //
		"xbcab":        {'x', 257, 256},
		" abc":         {259},
		"cccc":         {261},
		"ccccc":        {261, 'c'}, // pairs from the left
		"ccc":          {260, 'c'},
		"é":            {262},
		"è":            {0xc3, 0xa8},
		"<s>ab<s>":     {263, 256, 263},
		"<s>xa":        {264, 'a'}, // the longest of those that begin there
		"a\x00b":       {'a', 0, 'b'},
		"ab\xffab":     {256, 255, 256},
		"<s":           {'<', 's'},
		"word <s>word": append([]int64{0x77, 0x6f, 0x72, 0x64, 0x20}, 263, 'w', 'o', 'r', 'd'),
	} {
		if got := tok.Encode(nil, text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Whatever the text, its tokens are those of the rule applied by hand, and come
// back as the text.
func TestEncodeByTheRule(t *testing.T) {
	tok := parse(t, build(t, merges, nil))
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		text := make([]byte, random.IntN(30))
		for i := range text {
			text[i] = "abc \xc3\xa9"[random.IntN(6)]
		}
		got := tok.Encode(nil, string(text))
		if want := slow(tok, string(text)); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
		back := ""
		for _, id := range got {
			back += tok.Bytes(id)
		}
		if back != string(text) {
			t.Fatalf("%q came back as %q", text, back)
		}
	}
}

// slow merges the first of the pairs with the lowest rank, again and again.
func slow(tok *Tokenizer, text string) (ids []int64) {
	parts := []string{}
	for i := range len(text) {
		parts = append(parts, text[i:i+1])
	}
	for {
		best, at := -1, 0
		for i := range len(parts) - 1 {
			if rank, ok := tok.ranks[[2]string{parts[i], parts[i+1]}]; ok && (best < 0 || rank < best) {
				best, at = rank, i
			}
		}
		if best < 0 {
			break
		}
		parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
	}
	for _, p := range parts {
		ids = append(ids, tok.ids[p])
	}
	return ids
}

func TestDecode(t *testing.T) {
	tok := parse(t, build(t, merges, nil))
	if got := tok.Decode([]int64{263, 258, 262, 0xc3, 264, 999, -1}); got != "abcé\ufffd<s>x" {
		t.Errorf("decoded %q", got)
	}
}

// Merges are written in two ways.
func TestMergesAsPairs(t *testing.T) {
	data := build(t, merges, func(f map[string]any) {
		var pairs [][]string
		for _, m := range merges {
			pairs = append(pairs, strings.Split(m, " "))
		}
		f["model"].(map[string]any)["merges"] = pairs
	})
	if got := parse(t, data).Encode(nil, " abc"); !slices.Equal(got, []int64{259}) {
		t.Errorf("%v", got)
	}
}

// sequence has the steps split text before ByteLevel.
func sequence(steps ...any) func(map[string]any) {
	return func(f map[string]any) {
		f["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": append(steps, f["pre_tokenizer"])}
	}
}

// template puts the special token before each prompt.
func template(name string, ids []int) func(map[string]any) {
	return func(f map[string]any) {
		f["post_processor"] = map[string]any{"type": "Sequence", "processors": []any{
			map[string]any{"type": "ByteLevel"},
			map[string]any{
				"type":           "TemplateProcessing",
				"single":         []any{map[string]any{"SpecialToken": map[string]any{"id": name}}, map[string]any{"Sequence": map[string]any{"id": "A"}}},
				"special_tokens": map[string]any{name: map[string]any{"ids": ids}},
			},
		}}
	}
}

// Text is split into words as GPT-2's and Llama 3's tokenizers do.
func TestSplit(t *testing.T) {
	level := func(f map[string]any) { f["pre_tokenizer"].(map[string]any)["use_regex"] = true }
	split := func(pattern string) map[string]any {
		return map[string]any{"type": "Split", "behavior": "Isolated", "invert": false, "pattern": map[string]string{"Regex": pattern}}
	}
	llama := `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	for _, c := range []struct {
		change     func(map[string]any)
		text, want string // pieces with | between them
	}{
		{nil, "it's 12 o'clock", "it's 12 o'clock"},
		{level, "it's 12345 o'clock,  she said…", "it|'s| 12345| o|'|clock|,| | she| said|…"},
		{level, "a\n\n b", "a|\n\n| b"},
		{level, "né Zoë 漢字", "né| Zoë| 漢字"},
		{sequence(split(llama)), "It'S 12345 o'clock,  she\n", "It|'S| |123|45| o|'clock|,| | she|\n"},
		{sequence(map[string]any{"type": "Digits", "individual_digits": true}), "a12b", "a|1|2|b"},
		{sequence(map[string]any{"type": "Digits"}), "a12b", "a|12|b"},
		{func(f map[string]any) { f["pre_tokenizer"].(map[string]any)["add_prefix_space"] = true }, "ab", " ab"},
	} {
		tok := parse(t, build(t, merges, c.change))
		if got := strings.Join(tok.split(c.text), "|"); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestNormalizerAndTemplate(t *testing.T) {
	tok := parse(t, build(t, merges, func(f map[string]any) {
		template("<s>", []int{263})(f)
		f["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "NFC"}}}
	}))
	if got := tok.Prompt("e\u0301<s>"); !slices.Equal(got, []int64{263, 262, 263}) {
		t.Errorf("%v", got)
	}
	if got := tok.Prompt(""); !slices.Equal(got, []int64{263}) {
		t.Errorf("%v", got)
	}
}

func TestFaults(t *testing.T) {
	part := func(name, key string, value any) func(map[string]any) {
		return func(f map[string]any) { f[name].(map[string]any)[key] = value }
	}
	for want, change := range map[string]func(map[string]any){
		`its model is of type "Unigram"`:     part("model", "type", "Unigram"),
		"its vocabulary is empty":            part("model", "vocab", map[string]int{}),
		"its vocabulary lacks the byte 97":   func(f map[string]any) { delete(f["model"].(map[string]any)["vocab"].(map[string]int), "a") },
		"dropout, prefixes, suffixes":        part("model", "byte_fallback", true),
		"makes no token":                     part("model", "merges", []string{"x y"}),
		"its merges are neither":             part("model", "merges", 3),
		"tokens are numbered up to 99999999": func(f map[string]any) { f["model"].(map[string]any)["vocab"].(map[string]int)["zz"] = 99999999 },
		"tokens are numbered up to 1073741824": func(f map[string]any) {
			f["added_tokens"] = []any{map[string]any{"id": int64(math.MaxInt64), "content": "x"}}
		},
		"a step that is null": func(f map[string]any) {
			f["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{nil, map[string]any{"type": "ByteLevel"}}}
		},
		"nor ends with it": func(f map[string]any) {
			f["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{nil}}
		},
		`its normalizer "Lowercase" is not`: func(f map[string]any) { f["normalizer"] = map[string]any{"type": "Lowercase"} },
		"is not ByteLevel":                  part("pre_tokenizer", "type", "Whitespace"),
		"pre_tokenizer Metaspace is not":    sequence(map[string]any{"type": "Metaspace"}),
		`behavior "Removed"`:                sequence(map[string]any{"type": "Split", "behavior": "Removed", "pattern": map[string]string{"Regex": "a"}}),
		"which is not understood":           sequence(map[string]any{"type": "Split", "behavior": "Isolated", "pattern": map[string]string{"Regex": "(a"}}),
		`post_processor "Bert`:              func(f map[string]any) { f["post_processor"] = map[string]any{"type": "BertProcessing"} },
		"that it does not list":             template("<s>", nil),
		"names the token 999":               template("<s>", []int{999}),
		"its decoder is not ByteLevel":      part("decoder", "type", "WordPiece"),
		"single_word, lstrip or rstrip": func(f map[string]any) {
			f["added_tokens"] = []any{map[string]any{"id": 1, "content": "x", "lstrip": true}}
		},
		"has the number -1": func(f map[string]any) { f["added_tokens"] = []any{map[string]any{"id": -1, "content": "x"}} },
	} {
		if _, err := Parse(build(t, merges, change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"model": 3}`} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is a tokenizer", text)
		}
	}
	if _, err := Load("nowhere.json"); err == nil || !strings.Contains(err.Error(), "nowhere.json") {
		t.Errorf("no file: %v", err)
	}
}

// Whatever the file, the tokenizer of it takes any text.
func FuzzParse(f *testing.F) {
	f.Add(build(f, merges, nil), "abc <s>é")
	f.Add(build(f, merges, template("<s>", []int{263})), "it's")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Parse(data)
		if err != nil {
			return
		}
		for _, id := range tok.Prompt(text) {
			if id < 0 || int(id) >= tok.Size() {
				t.Errorf("%q has the token %d of %d", text, id, tok.Size())
			}
		}
	})
}

// A long text takes n log n.
func BenchmarkEncode(b *testing.B) {
	tok := parse(b, build(b, merges, nil))
	for _, n := range []int{100, 10_000} {
		text := strings.Repeat("abccab ", n/7)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				tok.Encode(nil, text)
			}
		})
	}
}
