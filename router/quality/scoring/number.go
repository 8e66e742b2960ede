package scoring

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// quantity is a number as a text states it.
type quantity struct {
	Value float64
	// Decimals are the digits after the point, -1 for a fraction or a power of ten, which have
	// as many as there are.
	Decimals int
	Percent  bool // Value is of a hundred
}

// nearest bounds, as a share of the value, how far a number may be from the one that it is
// rounded from.
const nearest = 0.02

// Equal reports whether two numbers are the same, or one of them is the other rounded to the
// decimals that it states, which whole numbers do not: 0.33 is 1/3 and 3.14 is 3.14159, but 18
// is not 18.4. 45 % is 45, and it is 0.45.
func (q quantity) Equal(o quantity) bool {
	if q.near(o) {
		return true
	}
	switch {
	case q.Percent && !o.Percent:
		return q.ofOne().near(o)
	case o.Percent && !q.Percent:
		return o.ofOne().near(q)
	}
	return false
}

// ofOne returns a percentage as a number of one.
func (q quantity) ofOne() quantity {
	q.Value /= 100
	if q.Decimals >= 0 {
		q.Decimals += 2
	}
	return q
}

func (q quantity) near(o quantity) bool {
	off, size := math.Abs(q.Value-o.Value), max(math.Abs(q.Value), math.Abs(o.Value))
	const digits = 1e-12 // what is lost where fractions are computed
	if off <= digits*size {
		return true
	}
	fewer := q.Decimals
	if q.Decimals < 0 || o.Decimals >= 0 && o.Decimals < fewer {
		fewer = o.Decimals
	}
	return fewer > 0 && off <= (0.5+1e-9)*math.Pow10(-fewer) && off <= nearest*size
}

func number(reference string) (Scorer, error) {
	want, ok := parseNumber(reference)
	if !ok {
		return nil, fmt.Errorf("the answer %q has no number", reference)
	}
	return func(answer string) float64 {
		got, ok := parseNumber(answer)
		return worth(ok && got.Equal(want))
	}, nil
}

// lastNumber returns the last number of a text; false if it has none. It reads signs, thousands
// separated by commas or narrow spaces, decimals after a point, powers of ten (1.5e6), fractions
// (3/4, 1 1/2, \frac{3}{4}) and percentages. Digits that go on a word, as in x2, are none.
func lastNumber(text string) (last quantity, ok bool) {
	end := -1 // of the last number
	for i := 0; i < len(text); {
		q, n := fraction(text[i:])
		if n == 0 && !(i > 0 && (letter(text[i-1]) || digit(text[i-1]))) {
			q, n = ratio(text, i)
		}
		if n == 0 {
			i++
			continue
		}
		if mixed(text, end, i, last, q) {
			q.Value += last.Value
		} else if negative(text[:i]) {
			q.Value = -q.Value
		}
		i += n
		size := percent(text[i:])
		q.Percent = size > 0
		i += size
		last, ok, end = q, true, i
	}
	return last, ok
}

// mixed reports whether a fraction at a position goes on the whole number that ended before it,
// as in 1 1/2.
func mixed(text string, end, at int, whole, q quantity) bool {
	return end >= 0 && at == end+1 && text[end] == ' ' && whole.Decimals == 0 && whole.Value >= 0 && !whole.Percent &&
		q.Decimals < 0 && q.Value < 1
}

// negative reports whether what comes before a number is a minus, and no hyphen or subtraction.
func negative(before string) bool {
	for _, currency := range []string{"$", "€", "£"} {
		before = strings.TrimSuffix(before, currency)
	}
	rest, ok := strings.CutSuffix(before, "-")
	if !ok {
		rest, ok = strings.CutSuffix(before, "−")
	}
	if !ok || rest == "" {
		return ok
	}
	b := rest[len(rest)-1]
	return !letter(b) && !digit(b) && b != ')' && b != '-'
}

// ratio reads a number, or two with a slash between them, and returns its length. What has two
// slashes is a date, of which it reads the first number.
func ratio(text string, at int) (quantity, int) {
	over, n := decimal(text[at:])
	if n == 0 || at > 0 && text[at-1] == '/' || !strings.HasPrefix(text[at+n:], "/") {
		return over, n
	}
	under, m := decimal(text[at+n+1:])
	if m == 0 || under.Value == 0 || strings.HasPrefix(text[at+n+1+m:], "/") {
		return over, n
	}
	return quantity{Value: over.Value / under.Value, Decimals: -1}, n + 1 + m
}

// fraction reads \frac{3}{4}, and returns its length.
func fraction(text string) (quantity, int) {
	if !strings.HasPrefix(text, `\`) {
		return quantity{}, 0
	}
	for _, name := range []string{`\frac{`, `\dfrac{`, `\tfrac{`} {
		rest, ok := strings.CutPrefix(text, name)
		if !ok {
			continue
		}
		over, n := decimal(rest)
		rest, ok = strings.CutPrefix(rest[n:], "}{")
		under, m := decimal(rest)
		if ok && n > 0 && m > 0 && under.Value != 0 && strings.HasPrefix(rest[m:], "}") {
			return quantity{Value: over.Value / under.Value, Decimals: -1}, len(text) - len(rest) + m + 1
		}
	}
	return quantity{}, 0
}

// decimal reads digits with thousands, decimals and a power of ten, and returns their length; 0
// if there is no number, or none that is finite.
func decimal(text string) (q quantity, n int) {
	n = digits(text)
	plain := text[:n]
	if n > 0 && n <= 3 {
		plain, n = thousands(text, n)
	}
	if d := decimals(text[n:]); d > 0 {
		plain += text[n : n+1+d]
		n, q.Decimals = n+1+d, d
	}
	if n == 0 {
		return quantity{}, 0
	}
	if e := exponent(text[n:]); e > 0 {
		plain += text[n : n+e]
		n, q.Decimals = n+e, -1
	}
	var err error
	if q.Value, err = strconv.ParseFloat(plain, 64); err != nil {
		return quantity{}, 0
	}
	return q, n
}

// separators may stand between thousands.
var separators = []string{",", "{,}", `\,`, "\u00a0", "\u2009", "\u202f"}

// thousands reads the groups of three digits that follow the first, and returns all digits and
// where they end.
func thousands(text string, n int) (plain string, end int) {
	plain = text[:n]
	for {
		group := 0
		for _, s := range separators {
			if strings.HasPrefix(text[n:], s) && digits(text[n+len(s):]) == 3 {
				group = len(s) + 3
			}
		}
		if group == 0 {
			return plain, n
		}
		plain += text[n+group-3 : n+group]
		n += group
	}
}

// decimals returns how many digits follow the point that the text begins with.
func decimals(text string) int {
	if !strings.HasPrefix(text, ".") {
		return 0
	}
	return digits(text[1:])
}

// exponent returns the length of a power of ten, such as e-3.
func exponent(text string) int {
	if text == "" || text[0]|0x20 != 'e' {
		return 0
	}
	n := 1
	if n < len(text) && (text[n] == '-' || text[n] == '+') {
		n++
	}
	d := digits(text[n:])
	if d == 0 || n+d < len(text) && letter(text[n+d]) {
		return 0
	}
	return n + d
}

// percent returns the length of a percent sign, or of the word.
func percent(text string) int {
	rest := strings.TrimPrefix(text, " ")
	for _, sign := range []string{"%", `\%`, "percent", "per cent"} {
		if strings.HasPrefix(rest, sign) {
			return len(text) - len(rest) + len(sign)
		}
	}
	return 0
}

// digits returns how many digits the text begins with.
func digits(text string) (n int) {
	for n < len(text) && digit(text[n]) {
		n++
	}
	return n
}

func digit(b byte) bool { return '0' <= b && b <= '9' }

func letter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' || b == '_' }
