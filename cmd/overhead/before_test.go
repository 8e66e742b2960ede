//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
)

// The two builds are measured one right after the other, the earlier one first in
// every other round, wherever the present one stands.
func TestAlternate(t *testing.T) {
	for _, c := range []struct {
		round       int
		order, want string
	}{
		{0, "direct gearshift nginx gearshift-before", "direct gearshift-before gearshift nginx"},
		{1, "direct gearshift nginx gearshift-before", "direct gearshift gearshift-before nginx"},
		{0, "gearshift-before nginx gearshift", "nginx gearshift-before gearshift"},
		{1, "gearshift-before nginx gearshift", "nginx gearshift gearshift-before"},
		{1, "direct nginx gearshift", "direct nginx gearshift"},
		{0, "gearshift-before direct", "gearshift-before direct"},
	} {
		var targets []target
		for name := range strings.FieldsSeq(c.order) {
			targets = append(targets, target{name: name})
		}
		alternate(targets, c.round)
		var got []string
		for _, t := range targets {
			got = append(got, t.name)
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("round %d of %s: %q, not %s", c.round, c.order, got, c.want)
		}
	}
}

// The interval of a median is between the values that a sign test would not reject:
// of 20, the sixth from either end (Conover, Practical Nonparametric Statistics, table A3).
func TestRank(t *testing.T) {
	for n, want := range map[int]int{1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 10: 1, 20: 5, 30: 9, 50: 17} {
		if got := rank(n); got != want {
			t.Errorf("of %d values the rank is %d, not %d", n, got, want)
		}
	}
}

// Differences are taken round by round of what is added, in shares of what the earlier build adds.
func TestDifferences(t *testing.T) {
	var list []measurement
	for round := range 6 {
		base := float64(10 * (1 + round)) // the machine slows down; the difference stays
		for target, p50 := range map[string]float64{direct: base, before: base + 100, present: base + 105 + float64(round)} {
			list = append(list, measurement{Round: round, Target: target, Kind: kindLatency, Bytes: 1 << 10, P50: 1e3 * p50})
		}
	}
	out := tables(t, list...)
	if want := "| added to the median with one client | +7.5 (+5.0 to +10.0) |\n"; !strings.Contains(out, want) {
		t.Errorf("no %s in\n%s", want, out)
	}
	few := tables(t, list[:9]...)
	if want := "(3 rounds are too few for an interval)"; !strings.Contains(few, want) {
		t.Errorf("no %s in\n%s", want, few)
	}
	one := slices.DeleteFunc(slices.Clone(list), func(m measurement) bool { return m.Target == before })
	if alone := tables(t, one...); strings.Contains(alone, "paired by round") {
		t.Errorf("a difference of one build:\n%s", alone)
	}
}
