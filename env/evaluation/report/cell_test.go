package report

import (
	"math"
	"slices"
	"testing"
)

func TestCellsAreShown(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		cell     Cell
		kind     Kind
		decimals int
		want     []string
	}{
		{Text("a–b"), KindText, 0, []string{"a–b"}},
		{Number(1.25), KindNumber, 1, []string{"1.2"}},
		{Number(-1.26), KindNumber, 1, []string{"−1.3"}},
		{Number(-0.001), KindNumber, 2, []string{"0.00"}},
		{Number(nan), KindNumber, 2, []string{"–"}},
		{Cell{}, KindNumber, 2, []string{"–"}},
		{Interval(0.897, 0.892, 0.902), KindInterval, 3, []string{"0.897 (0.892–0.902)"}},
		{Interval(0.01, -0.002, 0.022), KindInterval, 3, []string{"0.010 (−0.002 to 0.022)"}},
		{Interval(0.5, nan, nan), KindInterval, 1, []string{"0.5"}},
		{Interval(nan, 0, 1), KindInterval, 1, []string{"–"}},
		{Beside(1427, 713), KindBeside, 0, []string{"1427", "713", "2.00"}},
		{BesideInterval(784, 700, 900, 713), KindBeside, 0, []string{"784 (700–900)", "713", "1.10"}},
		{Beside(3, 0), KindBeside, 0, []string{"3", "0", "–"}},
		{Beside(nan, 2), KindBeside, 0, []string{"–", "2", "–"}},
		{Cell{}, KindBeside, 0, []string{"–", "–", "–"}},
	} {
		if got := c.cell.shown(Column{Kind: c.kind, Decimals: c.decimals}); !slices.Equal(got, c.want) {
			t.Errorf("%+v is shown as %q, want %q", c.cell, got, c.want)
		}
	}
}
