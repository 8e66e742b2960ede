package report

import (
	"math"
	"strconv"
	"strings"
)

// Kind is what a column's cells hold.
type Kind string

// The kinds of columns, with the constructor of their cells.
const (
	KindText     Kind = "text"     // [Text]
	KindNumber   Kind = "number"   // [Number]
	KindInterval Kind = "interval" // [Interval]
	KindBeside   Kind = "beside"   // [Beside], [BesideInterval]: ours, the paper's, their ratio
)

// Cell is one entry of a table. The zero Cell is missing, in a column of any
// kind. So is a number that is NaN.
type Cell struct {
	kind                 Kind
	text                 string
	value, lo, hi, paper float64
}

// Text returns a cell of words.
func Text(s string) Cell { return Cell{kind: KindText, text: s} }

// Number returns a cell of one number.
func Number(v float64) Cell { return Cell{kind: KindNumber, value: v} }

// Interval returns a number with the bounds of its 95 % interval.
func Interval(mean, lo, hi float64) Cell {
	return Cell{kind: KindInterval, value: mean, lo: lo, hi: hi}
}

// Beside shows our number and the paper's. The ratio shown is ours to theirs.
func Beside(ours, paper float64) Cell {
	return BesideInterval(ours, math.NaN(), math.NaN(), paper)
}

// BesideInterval is [Beside] with the bounds of our 95 % interval.
func BesideInterval(ours, lo, hi, paper float64) Cell {
	return Cell{kind: KindBeside, value: ours, lo: lo, hi: hi, paper: paper}
}

// ratio is ours to theirs; NaN where there is none.
func (c Cell) ratio() float64 {
	if c.paper == 0 {
		return math.NaN()
	}
	return c.value / c.paper
}

const (
	missing       = "–"
	ratioDecimals = 2
)

// shown returns the cell as its column's one, or for [KindBeside] three, fields of
// the page.
func (c Cell) shown(column Column) []string {
	d := column.Decimals
	switch {
	case c.kind == "" && column.Kind == KindBeside:
		return []string{missing, missing, missing}
	case c.kind == "":
		return []string{missing}
	case c.kind == KindText:
		return []string{c.text}
	case c.kind == KindNumber:
		return []string{decimal(c.value, d)}
	case c.kind == KindInterval:
		return []string{interval(c.value, c.lo, c.hi, d)}
	}
	return []string{interval(c.value, c.lo, c.hi, d), decimal(c.paper, d), decimal(c.ratio(), ratioDecimals)}
}

// interval writes "0.897 (0.892–0.902)", with "to" where a bound is negative
// and a dash would read as its sign.
func interval(mean, lo, hi float64, decimals int) string {
	text := decimal(mean, decimals)
	if text == missing || math.IsNaN(lo) || math.IsNaN(hi) {
		return text
	}
	low, high := decimal(lo, decimals), decimal(hi, decimals)
	between := "–"
	if strings.HasPrefix(low, minus) || strings.HasPrefix(high, minus) {
		between = " to "
	}
	return text + " (" + low + between + high + ")"
}

const minus = "−"

func decimal(v float64, decimals int) string {
	if math.IsNaN(v) {
		return missing
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if !strings.HasPrefix(text, "-") {
		return text
	}
	if strings.Trim(text, "-0.") == "" {
		return text[1:] // rounded to zero
	}
	return minus + text[1:]
}
