package scoring

import (
	"fmt"
	"regexp"
	"strings"
)

// between are the characters that may stand between the words of an answer and its letter.
const between = `[\s:*_"'“”(\[{=$\\-]*`

var (
	// settled finds a letter that an answer states as its own: "The answer is (C).",
	// "**Answer:** C", "the correct option is C", "<answer>C", "\boxed{C}".
	settled = regexp.MustCompile(`(?:(?i:\b(?:answer|option|choice)[*_"]*(?:\s+(?:to|for|of)\s[^.!?:\n]{1,80}?)?\s*(?:\b(?:is|would be|should be|must be)\b|[:=>]))` +
		`|\\boxed\{)` + between + `(?i:(?:option|choice|letter|answer|text|textbf|mathrm|boxed)\b` + between + `)*` + `([A-Ja-j])([^\pL\pN]|$)`)
	// alone finds a line that begins with a letter, as a list of choices has it: "C", "(C) Paris".
	alone = regexp.MustCompile(`(?m)^[\s*_"'(\[$]*([A-J])(?:[).:\]*]|\s*$|\s+[-–—]\s)`)
	// small is a whole answer of a letter in lower case.
	small = regexp.MustCompile(`^\W*([a-j])\W*$`)
	// mentioned finds letters in passing: "(C)", "option C", and capitals that are no words.
	mentioned = regexp.MustCompile(`\(([A-Ja-j])\)|\b(?i:option|choice|answer)\s+\W?([A-J])\b|\b([B-HJ])(?:[^\pL\pN'’]|$)`)
)

// parseChoice returns the letter, A to J, that an answer settles on; false if there is none. In
// this order it looks for the last letter that is stated as the answer, for a line that begins
// with a letter, if all that do have the same one, and for the last letter that is mentioned. Of
// a long text it reads the end.
func parseChoice(text string) (letter byte, ok bool) {
	text = end(text)
	if letter, ok = stated(text); ok {
		return letter, true
	}
	all := mentioned.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return 0, false
	}
	last := all[len(all)-1]
	return upper(last[1] + last[2] + last[3]), true
}

// end returns the last part of a long text, where a conclusion is: patterns take their time.
func end(text string) string {
	const longest = 16 << 10
	return text[max(0, len(text)-longest):]
}

// stated is [parseChoice] without letters that are only mentioned.
func stated(text string) (letter byte, ok bool) {
	text = end(text)
	for _, m := range settled.FindAllStringSubmatch(text, -1) {
		if !word(m[1], m[2]) {
			letter, ok = upper(m[1]), true
		}
	}
	if ok {
		return letter, true
	}
	if m := small.FindStringSubmatch(text); m != nil {
		return upper(m[1]), true
	}
	for _, m := range alone.FindAllStringSubmatch(text, -1) {
		if ok && m[1][0] != letter {
			return 0, false
		}
		letter, ok = m[1][0], true
	}
	return letter, ok
}

// word reports whether a letter is an article or a pronoun, by what follows it: "a dog", "I think".
func word(letter, after string) bool {
	return strings.Contains("aiI", letter) && (after == " " || after == "'" || after == "’" || after == "-")
}

func upper(letter string) byte { return letter[0] &^ 0x20 }

func choice(reference string) (Scorer, error) {
	want, ok := parseChoice(reference)
	if !ok {
		return nil, fmt.Errorf("the answer %q has no letter from A to J", reference)
	}
	return func(answer string) float64 {
		got, ok := parseChoice(answer)
		return worth(ok && got == want)
	}, nil
}
