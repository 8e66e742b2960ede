package app

import (
	"math"
	"testing"
)

func TestTheLimitThatHolds(t *testing.T) {
	const gib = 1 << 30
	for _, x := range []struct {
		soft, group, machine int64
		want                 int64
		from                 string
	}{
		{math.MaxInt64, 0, 8 * gib, 8 * gib, "machine"},
		{math.MaxInt64, gib, 8 * gib, gib, "cgroup"},
		{gib, 2 * gib, 8 * gib, gib, "GOMEMLIMIT"},
		{4 * gib, gib, 8 * gib, gib, "cgroup"},
		{64 * gib, 0, 8 * gib, 8 * gib, "machine"},
		{math.MaxInt64, 0, 0, 0, ""},
	} {
		if got, from := smallestLimit(x.soft, x.group, x.machine); got != x.want || from != x.from {
			t.Errorf("%d, %d, %d: %d of %s, want %d of %s", x.soft, x.group, x.machine, got, from, x.want, x.from)
		}
	}
}
