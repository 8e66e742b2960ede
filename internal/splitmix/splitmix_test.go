package splitmix_test

import (
	"testing"

	"gearshift/internal/splitmix"
)

// The first numbers of the generator from seed 0, by its reference implementation.
func TestNextIsTheGenerators(t *testing.T) {
	var state uint64
	for _, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := splitmix.Next(state); got != want {
			t.Errorf("%#x, want %#x", got, want)
		}
		state += 0x9e3779b97f4a7c15
	}
}

func TestUnitIsBelowOne(t *testing.T) {
	for x, want := range map[uint64]float64{0: 0, 1 << 63: 0.5} {
		if got := splitmix.Unit(x); got != want {
			t.Errorf("%#x is %v, want %v", x, got, want)
		}
	}
	if got := splitmix.Unit(^uint64(0)); got >= 1 {
		t.Errorf("the largest is %v", got)
	}
}
