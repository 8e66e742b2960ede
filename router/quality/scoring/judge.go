package scoring

import (
	"regexp"
	"strings"
)

// Verdict names the answer that a judge prefers, of two.
type Verdict int8

// The verdicts of a judge.
const (
	First  Verdict = 1
	Tie    Verdict = 0
	Second Verdict = -1
)

// said finds a verdict in a judge's text: "[[A]]", "Verdict: B", `"winner": "tie"`, "Better: answer A".
var said = regexp.MustCompile(`(?:\[\[\s*|(?i:\b(?:verdict|winner|better|judge?ment|decision)(?:\s+(?:answer|response|one))?["'*_\s]*(?:\bis\b|[:=])["'*_\s(\[]*(?:(?:answer|assistant|response)\s+)?))` +
	`(A|B|C|(?i:tie|draw|equal))(?:[^\pL\pN]|$)`)

// ParseVerdict reads the last verdict in a judge's text, A, B or a tie: [[A]], [[B]] and [[C]] or
// [[tie]] as judges are often asked for, "Verdict: A", or a last line of A, B or tie alone; false
// if there is none.
func ParseVerdict(text string) (v Verdict, ok bool) {
	text = end(text)
	if all := said.FindAllStringSubmatch(text, -1); len(all) > 0 {
		return verdict(all[len(all)-1][1])
	}
	text = strings.TrimSpace(text)
	last := text[strings.LastIndexByte(text, '\n')+1:]
	last = strings.TrimFunc(last, func(r rune) bool { return strings.ContainsRune(around+"()[].:#", r) })
	return verdict(last)
}

func verdict(text string) (v Verdict, ok bool) {
	switch strings.ToLower(text) {
	case "a":
		return First, true
	case "b":
		return Second, true
	case "c", "tie", "draw", "equal":
		return Tie, true
	}
	return 0, false
}

// Compared returns the score of an answer against another by a judge who saw them in both orders:
// 1 if both verdicts are for it, 0 if both are for the other, and .5 for a tie, or if the orders
// disagree. Shown is the verdict where the answer came first, turned where it came second.
func Compared(shown, turned Verdict) float64 {
	if shown != -turned {
		return 0.5
	}
	return (1 + float64(shown)) / 2
}
