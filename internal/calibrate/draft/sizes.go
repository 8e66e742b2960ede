package draft

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// counted finds numbers of parameters in a lower-case name: 7b, 1.3b, 125m, 8x7b, and
// a3b for those that are active in a token's step.
var counted = regexp.MustCompile(`(^a?|[^0-9.a]|[^0-9.]a)(?:([0-9]+)x)?([0-9]+(?:\.[0-9]+)?)([bm])(?:$|[^a-z0-9])`)

// Parameters returns the number of parameters in a model's name, and of those that a
// token's step computes with; zeros if the name has none.
func Parameters(name string) (all, active float64) {
	// Two numbers may share the sign between them, as in 30b-a3b.
	name = strings.NewReplacer("-", "--", "_", "--", ":", "--", "/", "--", " ", "--").Replace(strings.ToLower(name))
	for _, m := range counted.FindAllStringSubmatch(name, -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil || n == 0 {
			continue
		}
		if m[4] == "b" {
			n *= 1e9
		} else {
			n *= 1e6
		}
		if m[1] == "a" || m[1] == "-a" { // and not the end of a word, as in llama7b
			active = n
			continue
		}
		if experts, err := strconv.ParseFloat(m[2], 64); err == nil && experts > 1 {
			// Experts share the attention, and two of them compute: of 8x7b 47 and 13 billion.
			all, active = experts*n*0.84, 1.85*n
			continue
		}
		if all == 0 {
			all = n
		}
	}
	if all == 0 {
		all = active
	}
	if active == 0 || active > all {
		active = all
	}
	return all, active
}

// ranks are the words that name a size, from the smallest.
var ranks = [][]string{
	{"nano", "pico", "micro"}, {"tiny", "xs"}, {"mini", "xsmall"}, {"small", "sm", "s"}, {"lite", "light", "flash", "fast"},
	{"base", "medium", "md", "m"}, {"plus", "pro"}, {"large", "big", "lg", "l"}, {"xl", "xlarge", "huge"}, {"max", "ultra", "xxl"},
}

var separators = regexp.MustCompile(`[^a-z0-9]+`)

// rankOf returns the rank of a word for a size in the name, from 1; 0 if there is none.
func rankOf(name string) int {
	words := separators.Split(strings.ToLower(name), -1)
	for i := len(words) - 1; i >= 0; i-- { // the last word is closest to the size
		for rank, list := range ranks {
			if slices.Contains(list, words[i]) {
				return rank + 1
			}
		}
	}
	return 0
}

// widths are the bytes of a parameter by the words of its quantisation.
var widths = []struct {
	form  *regexp.Regexp
	bytes float64
}{
	{regexp.MustCompile(`(^|[^a-z0-9])(i?q2|2bit)`), 0.35},
	{regexp.MustCompile(`(^|[^a-z0-9])(i?q3|3bit)`), 0.45},
	{regexp.MustCompile(`(^|[^a-z0-9])(i?q4|4bit|4-bit|int4|w4a\d+|awq|gptq|nf4|fp4|mxfp4|nvfp4|bnb)`), 0.57},
	{regexp.MustCompile(`(^|[^a-z0-9])(i?q5|5bit)`), 0.7},
	{regexp.MustCompile(`(^|[^a-z0-9])(i?q6|6bit)`), 0.83},
	{regexp.MustCompile(`(^|[^a-z0-9])(q8|8bit|8-bit|int8|fp8|w8a\d+)`), 1.06},
	{regexp.MustCompile(`(^|[^a-z0-9])(f32|fp32|float32)`), 4},
}

// bytesPerParameter returns the width of the weights by the name, and whether the name says it.
func bytesPerParameter(name string) (bytes float64, said bool) {
	name = strings.ToLower(name)
	for _, w := range widths {
		if w.form.MatchString(name) {
			return w.bytes, true
		}
	}
	return 2, false
}
