package workloads

import (
	"math"
	"testing"
	"time"
)

// TestTheDayIsWhole: there is a rate for each ten minutes, and the day has its quiet night and
// its busy afternoon.
func TestTheDayIsWhole(t *testing.T) {
	rates := DailyRates()
	if n := int(24 * time.Hour / DailyInterval); len(rates) != n {
		t.Fatalf("%d rates, want %d", len(rates), n)
	}
	mean := func(from, to int) (sum float64) {
		for _, r := range rates[from*6 : to*6] {
			sum += r
		}
		return sum / float64((to-from)*6)
	}
	if all := mean(0, 24); math.Abs(all-9.47) > 0.1 {
		t.Errorf("a mean of %.3f requests/s, want about 9.47", all)
	}
	if night, noon := mean(0, 1), mean(15, 16); noon < 2*night {
		t.Errorf("%.2f requests/s at night and %.2f in the afternoon, want twice as many", night, noon)
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	for _, csv := range []string{"h\n0,x", "h\n0,0", "h\n5,1", "h\n0"} {
		if _, err := parseDay(csv); err == nil {
			t.Errorf("%q is read without an error", csv)
		}
	}
}
