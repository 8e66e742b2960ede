package scoring

import (
	"unicode"
	"unicode/utf8"
)

// Agree returns how far an answer agrees with another one, from 0 to 1. Where both settle on a
// letter or on a number ("The answer is 42", "#### 42", or nothing but a number), it is 1 if these
// are equal and else 0; so it is where both are the same text. Of other answers it is the overlap
// of their words, which says little of what they mean: two good answers in other words score low.
func Agree(answer, other string) float64 { return read(answer).agree(read(other)) }

func agreement(reference string) (Scorer, error) {
	want := read(reference)
	if want.normal == "" {
		return nil, errNoAnswer
	}
	return func(answer string) float64 { return read(answer).agree(want) }, nil
}

// reading holds what an answer says, to compare it with others.
type reading struct {
	normal   string
	letter   byte // that it settles on; 0 if there is none
	number   quantity
	isNumber bool
}

func read(text string) (r reading) {
	r.normal = normal(text)
	r.letter, _ = stated(text)
	r.number, r.isNumber = result(text)
	return r
}

func (r reading) agree(o reading) float64 {
	switch {
	case r.normal != "" && r.normal == o.normal:
		return 1
	case r.letter != 0 && o.letter != 0:
		return worth(r.letter == o.letter)
	case r.isNumber && o.isNumber:
		return worth(r.number.Equal(o.number))
	}
	return overlap(r.normal, o.normal)
}

// overlap returns the harmonic mean (F1) of the shares of each text's words that the other has too,
// of texts in lower case.
func overlap(a, b string) float64 {
	counts, inA, inB, both := map[string]int{}, 0, 0, 0
	for w := range words(a) {
		counts[w]++
		inA++
	}
	for w := range words(b) {
		inB++
		if counts[w] > 0 {
			counts[w]--
			both++
		}
	}
	if both == 0 {
		return 0
	}
	return 2 * float64(both) / float64(inA+inB)
}

// words yields the words of a text: runs of letters and digits, and each character of scripts
// that put no spaces between words.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := -1 // of a word that has begun
		for i, r := range text {
			inside := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
			single := inside && r >= unspaced
			if start >= 0 && (!inside || single) {
				if !yield(text[start:i]) {
					return
				}
				start = -1
			}
			if single && !yield(text[i:i+utf8.RuneLen(r)]) {
				return
			}
			if inside && !single && start < 0 {
				start = i
			}
		}
		if start >= 0 {
			yield(text[start:])
		}
	}
}

// unspaced begins the scripts of China and Japan.
const unspaced = 0x2e80
