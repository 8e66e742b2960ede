package scoring

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// around are the characters that say nothing at either end of an answer: white space, quotes and
// the emphasis of Markdown.
const around = " \t\r\n\u00a0\"'`*_“”‘’«»"

// normal returns a text in lower case with single spaces, without quotes and emphasis around it
// and without a full stop at its end.
func normal(text string) string {
	text = strings.Trim(text, around)
	text = strings.Trim(strings.TrimRight(text, ".。"), around)
	return strings.Join(strings.Fields(strings.ToLower(text)), " ")
}

func exact(reference string) (Scorer, error) {
	want := normal(reference)
	if want == "" {
		return nil, errNoAnswer
	}
	return func(answer string) float64 { return worth(normal(answer) == want) }, nil
}

// contains scores 1 for an answer that has any of the reference's texts, or all of them.
func contains(r Reference) (Scorer, error) {
	var wanted []string
	for _, a := range r.Answers {
		want := normal(a)
		if want == "" {
			return nil, fmt.Errorf("%q has nothing to look for in an answer", a)
		}
		wanted = append(wanted, want)
	}
	return func(answer string) float64 {
		text := strings.Join(strings.Fields(strings.ToLower(answer)), " ")
		for _, w := range wanted {
			if hasWords(text, w) != r.All {
				return worth(!r.All)
			}
		}
		return worth(r.All)
	}, nil
}

// hasWords reports whether the text has the words, not as a part of longer ones: 4 is not in 42.
func hasWords(text, words string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(words)
		if !joined(text, start) && !joined(text, end) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
}

// joined reports whether a position of a text is inside of a word. Scripts from Hebrew on, many
// of which put no spaces between words, have no insides.
func joined(text string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	return spaced(before) && spaced(after)
}

// spaced reports whether a character is a letter or digit of a script that puts spaces between words.
func spaced(r rune) bool {
	const hebrew = 0x590
	return r < hebrew && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
