package scoring

import (
	"regexp"
	"strings"
)

// parseNumber returns the number that an answer states as its result, see [lastNumber]: the last one on the
// line of its last "####", "answer is" or "answer:", or within its last \boxed{}. Of an answer
// that states none in this way it returns the last number.
func parseNumber(text string) (quantity, bool) {
	if q, ok := result(text); ok {
		return q, true
	}
	return lastNumber(text)
}

var (
	// concludes finds where an answer begins to state its result.
	concludes = regexp.MustCompile(`(?i)####|\\boxed\{|\banswer[*_"]*\s*(?:\bis\b|[:=])`)
	// bare is an answer of nothing but a number and its unit.
	bare = regexp.MustCompile(`^[^\pL\pN\n]*\d[\d.,/%]*\s?\pL{0,12}[^\pL\pN\n]*$`)
)

// result returns the number that an answer states as its result; false if it states none.
func result(text string) (quantity, bool) {
	text = end(text)
	if bare.MatchString(text) {
		return lastNumber(text)
	}
	all := concludes.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return quantity{}, false
	}
	last := all[len(all)-1]
	conclusion, _, _ := strings.Cut(strings.TrimLeft(text[last[1]:], around), "\n")
	if text[last[1]-1] == '{' {
		conclusion = braced(conclusion)
	}
	return lastNumber(conclusion)
}

// braced returns what comes before the brace that closes one before the text.
func braced(text string) string {
	depth := 1
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}
