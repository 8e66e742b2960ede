// Package tokenizer reads tokenizer.json, Hugging Face's description of a
// tokenizer, as far as byte-level BPE goes: the family of GPT-2, Llama 3, Qwen
// and most others of today. What else a file asks for is refused by name,
// rather than taken for something near it.
package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Tokenizer turns text into the numbers of tokens, and back. It is read-only.
type Tokenizer struct {
	ids     map[string]int64 // of tokens, in bytes
	bytes   []string         // of each token; of special ones, empty
	ranks   map[[2]string]int
	special [256][]added // by their first byte, the longest first
	size    int
	longest int
	whole   bool // a word that is a token is not merged

	forms         []norm.Form
	splitters     []splitter
	before, after []int64 // around a prompt
}

// added is a token that is found in the text as it is.
type added struct {
	id      int64
	content string
}

// file is what is read of tokenizer.json.
type file struct {
	Added []struct {
		ID         int64  `json:"id"`
		Content    string `json:"content"`
		Special    bool   `json:"special"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
	} `json:"added_tokens"`
	Normalizer   *component `json:"normalizer"`
	PreTokenizer *component `json:"pre_tokenizer"`
	Processor    *component `json:"post_processor"`
	Decoder      *component `json:"decoder"`
	Model        struct {
		Type         string           `json:"type"`
		Dropout      *float64         `json:"dropout"`
		Prefix       string           `json:"continuing_subword_prefix"`
		Suffix       string           `json:"end_of_word_suffix"`
		ByteFallback bool             `json:"byte_fallback"`
		IgnoreMerges bool             `json:"ignore_merges"`
		Vocabulary   map[string]int64 `json:"vocab"`
		Merges       json.RawMessage  `json:"merges"`
	} `json:"model"`
}

// Load reads the file.
func Load(path string) (*Tokenizer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read tokenizer %s: %w", path, err)
	}
	return t, nil
}

// LoadFolder reads a model's folder: config.json, which it hands to configure, and
// tokenizer.json.
func LoadFolder(dir string, configure func(config []byte) error) (*Tokenizer, error) {
	if err := Configure(dir, configure); err != nil {
		return nil, err
	}
	return Load(filepath.Join(dir, "tokenizer.json"))
}

// Configure reads config.json of a model's folder, and hands it to configure.
func Configure(dir string, configure func(config []byte) error) error {
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read model: %w", err)
	}
	if err := configure(data); err != nil {
		return fmt.Errorf("cannot read model: %s: %w", path, err)
	}
	return nil
}

// Parse reads the text of tokenizer.json.
func Parse(data []byte) (*Tokenizer, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a tokenizer: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	t := &Tokenizer{ids: map[string]int64{}, ranks: map[[2]string]int{}, whole: f.Model.IgnoreMerges}
	for _, step := range []func() error{
		func() error { return t.vocabulary(&f) },
		func() error { return t.merges(f.Model.Merges) },
		func() error { return t.normalizer(f.Normalizer) },
		func() error { return t.preTokenizer(f.PreTokenizer) },
		func() error { return t.postProcessor(f.Processor) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// check refuses what would be tokenized otherwise than the file says.
func (f *file) check() error {
	switch m := f.Model; {
	case m.Type != "BPE":
		return fmt.Errorf("its model is of type %q; understood is BPE", m.Type)
	case len(m.Vocabulary) == 0:
		return errors.New("its vocabulary is empty")
	case m.Dropout != nil && *m.Dropout != 0, m.Prefix != "", m.Suffix != "", m.ByteFallback:
		return errors.New("its model has dropout, prefixes, suffixes or byte_fallback, which are not understood")
	case f.Decoder == nil || f.Decoder.Type != "ByteLevel":
		return errors.New("its decoder is not ByteLevel")
	}
	return nil
}

func (t *Tokenizer) vocabulary(f *file) error {
	const most = 1 << 30 // so that one more is a number still
	for _, id := range f.Model.Vocabulary {
		t.size = max(t.size, int(min(id, most))+1)
	}
	for _, a := range f.Added {
		t.size = max(t.size, int(min(a.ID, most))+1)
	}
	if t.size > 2*(len(f.Model.Vocabulary)+len(f.Added))+1024 {
		return fmt.Errorf("its tokens are numbered up to %d, and there are %d of them", t.size-1, len(f.Model.Vocabulary)+len(f.Added))
	}
	t.bytes = make([]string, t.size)
	byLetter := bytesByLetter()
	for text, id := range f.Model.Vocabulary {
		raw, ok := spell(text, byLetter)
		if id < 0 {
			return fmt.Errorf("the token %.40q has the number %d", text, id)
		}
		if !ok {
			continue // in the vocabulary for an added token
		}
		t.ids[raw], t.bytes[id] = id, raw
		t.longest = max(t.longest, len(raw))
	}
	for _, a := range f.Added {
		switch {
		case a.ID < 0 || a.Content == "":
			return fmt.Errorf("the added token %.40q has the number %d", a.Content, a.ID)
		case a.SingleWord || a.LStrip || a.RStrip:
			return fmt.Errorf("the added token %.40q has single_word, lstrip or rstrip, which are not understood", a.Content)
		}
		first := a.Content[0]
		t.special[first] = append(t.special[first], added{a.ID, a.Content})
		t.longest = max(t.longest, len(a.Content))
		if t.bytes[a.ID] = a.Content; a.Special {
			t.bytes[a.ID] = ""
		}
	}
	for _, list := range t.special {
		slices.SortStableFunc(list, func(a, b added) int { return len(b.content) - len(a.content) })
	}
	for b := range 256 {
		if _, ok := t.ids[string([]byte{byte(b)})]; !ok {
			return fmt.Errorf("its vocabulary lacks the byte %d", b)
		}
	}
	return nil
}

// letters is the letter that stands for each byte, as in GPT-2.
func letters() (all [256]rune) {
	next := rune(256)
	for b := range all {
		r := rune(b)
		if r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®' && r <= 'ÿ' {
			all[b] = r
			continue
		}
		all[b] = next
		next++
	}
	return all
}

// bytesByLetter returns the byte that each letter stands for.
func bytesByLetter() map[rune]byte {
	by := map[rune]byte{}
	for b, letter := range letters() {
		by[letter] = byte(b)
	}
	return by
}

// spell is the bytes that the letters stand for.
func spell(text string, byLetter map[rune]byte) (string, bool) {
	var raw []byte
	for _, r := range text {
		b, ok := byLetter[r]
		if !ok {
			return "", false
		}
		raw = append(raw, b)
	}
	return string(raw), true
}

// merges reads the pairs, written as "a b" or as ["a", "b"].
func (t *Tokenizer) merges(text json.RawMessage) error {
	var pairs [][2]string
	if err := json.Unmarshal(text, &pairs); err != nil {
		var lines []string
		if err := json.Unmarshal(text, &lines); err != nil {
			return errors.New("its merges are neither pairs nor texts")
		}
		pairs = nil
		for _, line := range lines {
			a, b, _ := strings.Cut(line, " ")
			pairs = append(pairs, [2]string{a, b})
		}
	}
	byLetter := bytesByLetter()
	for i, p := range pairs {
		a, okA := spell(p[0], byLetter)
		b, okB := spell(p[1], byLetter)
		if _, ok := t.ids[a+b]; !ok || !okA || !okB {
			return fmt.Errorf("its merge %d, of %.40q and %.40q, makes no token", i, p[0], p[1])
		}
		t.ranks[[2]string{a, b}] = i
	}
	return nil
}

// Size is one more than the greatest number of a token.
func (t *Tokenizer) Size() int { return t.size }

// Bytes is what the token stands for, empty for a special one. It may be a part
// of a character.
func (t *Tokenizer) Bytes(id int64) string {
	if id < 0 || int(id) >= len(t.bytes) {
		return ""
	}
	return t.bytes[id]
}

// ID is the number of a token that is found in the text as it is.
func (t *Tokenizer) ID(content string) (int64, bool) {
	if content == "" {
		return 0, false
	}
	found := t.specialAt(content)
	if found == nil || found.content != content {
		return 0, false
	}
	return found.id, true
}

// Longest is how many bytes of text one token stands for at most.
func (t *Tokenizer) Longest() int { return t.longest }

// Encode appends the tokens of the text. Special tokens are found in it.
func (t *Tokenizer) Encode(ids []int64, text string) []int64 {
	begin := 0
	for at := 0; at < len(text); {
		found := t.specialAt(text[at:])
		if found == nil {
			at++
			continue
		}
		ids = append(t.plain(ids, text[begin:at]), found.id)
		at += len(found.content)
		begin = at
	}
	return t.plain(ids, text[begin:])
}

// plain appends the tokens of text with no special ones in it.
func (t *Tokenizer) plain(ids []int64, text string) []int64 {
	if text == "" {
		return ids
	}
	for _, form := range t.forms {
		text = form.String(text)
	}
	for _, word := range t.split(text) {
		ids = t.word(ids, word)
	}
	return ids
}

// specialAt is the added token that the text begins with, or nil.
func (t *Tokenizer) specialAt(text string) *added {
	list := t.special[text[0]]
	for i := range list {
		if strings.HasPrefix(text, list[i].content) {
			return &list[i]
		}
	}
	return nil
}

// Decode is the text of the tokens. What is no UTF-8 becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int64) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(t.Bytes(id))
	}
	return strings.ToValidUTF8(b.String(), string(utf8.RuneError))
}
