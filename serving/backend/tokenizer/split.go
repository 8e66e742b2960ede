package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dlclark/regexp2/v2"
	"golang.org/x/text/unicode/norm"
)

// gpt2Words is how ByteLevel splits text into words. It looks ahead, which Go's
// own regular expressions cannot.
const gpt2Words = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// component is a step of a tokenizer's pipeline.
type component struct {
	Type           string       `json:"type"`
	AddPrefixSpace bool         `json:"add_prefix_space"`
	UseRegex       *bool        `json:"use_regex"`
	Behavior       string       `json:"behavior"`
	Invert         bool         `json:"invert"`
	Individual     bool         `json:"individual_digits"`
	Parts          []*component `json:"pretokenizers"`
	Normalizers    []*component `json:"normalizers"`
	Processors     []*component `json:"processors"`
	Pattern        struct {
		Regex  string
		String string
	} `json:"pattern"`
	Single []struct {
		SpecialToken *struct{ ID string }
		Sequence     *json.RawMessage
	} `json:"single"`
	Special map[string]struct{ IDs []int64 } `json:"special_tokens"`
}

// splitter cuts a text into pieces that merges do not cross.
type splitter func(text string) []string

// split is the pieces of the text after all splitters.
func (t *Tokenizer) split(text string) []string {
	pieces := []string{text}
	for _, s := range t.splitters {
		var next []string
		for _, p := range pieces {
			next = append(next, s(p)...)
		}
		pieces = next
	}
	return pieces
}

// preTokenizer reads how text is split into words. The last step must be
// ByteLevel, which is what the vocabulary is of.
func (t *Tokenizer) preTokenizer(c *component) error {
	var steps []*component
	if c != nil {
		if steps = []*component{c}; c.Type == "Sequence" {
			steps = c.Parts
		}
	}
	if len(steps) == 0 || steps[len(steps)-1] == nil || steps[len(steps)-1].Type != "ByteLevel" {
		return errors.New("its pre_tokenizer is not ByteLevel, nor ends with it")
	}
	for _, s := range steps {
		if s == nil {
			return errors.New("its pre_tokenizer has a step that is null")
		}
		if err := t.splitBy(s); err != nil {
			return fmt.Errorf("its pre_tokenizer %s %w", s.Type, err)
		}
	}
	return nil
}

// splitBy adds a step.
func (t *Tokenizer) splitBy(c *component) error {
	switch c.Type {
	case "ByteLevel":
		if c.AddPrefixSpace {
			t.splitters = append(t.splitters, prefixSpace)
		}
		if c.UseRegex == nil || *c.UseRegex {
			return t.isolate(gpt2Words)
		}
		return nil
	case "Digits":
		if c.Individual {
			return t.isolate(`\p{N}`)
		}
		return t.isolate(`\p{N}+`)
	case "Split":
		pattern := c.Pattern.Regex
		if pattern == "" {
			pattern = regexp2.Escape(c.Pattern.String)
		}
		if pattern == "" || c.Invert || c.Behavior != "Isolated" {
			return fmt.Errorf("has behavior %q, invert %v; understood are patterns that are isolated", c.Behavior, c.Invert)
		}
		return t.isolate(pattern)
	}
	return errors.New("is not understood; ByteLevel, Split and Digits are, and a Sequence of them")
}

// prefixSpace sets a space before a piece that has none.
func prefixSpace(text string) []string {
	if strings.HasPrefix(text, " ") {
		return []string{text}
	}
	return []string{" " + text}
}

// isolate makes pieces of what matches and of what lies between.
func (t *Tokenizer) isolate(pattern string) error {
	// Without a bound on its stack, it fails on no text: prompts are bounded elsewhere.
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return fmt.Errorf("has the pattern %.60q, which is not understood: %w", pattern, err)
	}
	t.splitters = append(t.splitters, func(text string) (pieces []string) {
		matches, err := re.FindAllStringIndex(text, -1)
		if err != nil { // only of a limit of time or stack, and there is none
			return []string{text}
		}
		at := 0
		for _, m := range matches {
			if m[0] > at {
				pieces = append(pieces, text[at:m[0]])
			}
			if m[1] > m[0] {
				pieces = append(pieces, text[m[0]:m[1]])
			}
			at = m[1]
		}
		if at < len(text) {
			pieces = append(pieces, text[at:])
		}
		return pieces
	})
	return nil
}

// normalizer reads what is done to text before all else.
func (t *Tokenizer) normalizer(c *component) error {
	if c == nil {
		return nil
	}
	if c.Type == "Sequence" {
		for _, n := range c.Normalizers {
			if err := t.normalizer(n); err != nil {
				return err
			}
		}
		return nil
	}
	forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
	form, ok := forms[c.Type]
	if !ok {
		return fmt.Errorf("its normalizer %q is not understood; NFC, NFD, NFKC and NFKD are", c.Type)
	}
	t.forms = append(t.forms, form)
	return nil
}

// postProcessor reads which tokens stand before and after a prompt.
func (t *Tokenizer) postProcessor(c *component) error {
	switch {
	case c == nil || c.Type == "ByteLevel": // which moves offsets alone
		return nil
	case c.Type == "Sequence":
		for _, p := range c.Processors {
			if err := t.postProcessor(p); err != nil {
				return err
			}
		}
		return nil
	case c.Type != "TemplateProcessing":
		return fmt.Errorf("its post_processor %q is not understood; TemplateProcessing and ByteLevel are", c.Type)
	}
	side := &t.before
	for _, part := range c.Single {
		switch {
		case part.Sequence != nil:
			side = &t.after
		case part.SpecialToken != nil && len(c.Special[part.SpecialToken.ID].IDs) > 0:
			for _, id := range c.Special[part.SpecialToken.ID].IDs {
				if id < 0 || int(id) >= t.size {
					return fmt.Errorf("its post_processor names the token %d, which is none of its %d", id, t.size)
				}
				*side = append(*side, id)
			}
		default:
			return errors.New("its post_processor names a special token that it does not list")
		}
	}
	return nil
}

// Prompt is the tokens of a prompt: its text, between those that the tokenizer
// puts before and after.
func (t *Tokenizer) Prompt(text string) []int64 {
	return append(t.Encode(append([]int64(nil), t.before...), text), t.after...)
}
