package scenario_test

import (
	"math"
	"testing"

	"gearshift/cmd/gearshift/scenario"
)

// TestHostTimeIsThatOfAFullBatch: as many mean answers as a replica gives in time within a second
// take a second of its host, and twice the tokens take twice as long.
func TestHostTimeIsThatOfAFullBatch(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	took := s.HostTime()
	for i, c := range s.Capacities(s.PaceMS(&s.Tasks[0])) {
		mean := took(i, 0).Seconds()
		if got := mean * c.Rate; math.Abs(got-1) > 1e-6 {
			t.Errorf("replica %d: %.2f answers a second take %.3f s", i, c.Rate, got)
		}
		if many, few := took(i, 500).Seconds(), took(i, 250).Seconds(); math.Abs(many/few-2) > 1e-6 || few < 0.9*mean || few > 1.1*mean {
			t.Errorf("replica %d: 500 tokens take %.3f s, 250 %.3f, the mean answer of 256 %.3f", i, many, few, mean)
		}
	}
}
