package profile_test

import (
	"math"
	"testing"

	"gearshift/router/profile"
)

// TestBandwidthStretchesWork: below the knee memory costs nothing; above, work takes as many
// times as long as memory does at what is then in use, which stays below all there is.
func TestBandwidthStretchesWork(t *testing.T) {
	law := profile.DefaultBandwidth
	for _, asked := range []float64{0, 0.3, law.Knee} {
		if s := law.Stretch(asked); s != 1 {
			t.Errorf("at %.2f of the bandwidth work takes %v times as long, want as long as alone", asked, s)
		}
	}
	last := 1.0
	for asked := 0.7; asked < 5; asked += 0.1 {
		s := law.Stretch(asked)
		if used := asked / s; math.Abs(law.Latency(used)-s) > 1e-9*s || used < law.Knee || used > 1 {
			t.Errorf("asked %.2f: %v times as long with %.3f of the bandwidth in use, where memory takes %v times as long", asked, s, used, law.Latency(used))
		}
		if s <= last {
			t.Errorf("asked %.2f: %v times as long, not more than with less", asked, s)
		}
		last = s
	}
	// Exponential: equal steps of use multiply the latency by the same.
	if a, b := law.Latency(0.8)/law.Latency(0.7), law.Latency(0.9)/law.Latency(0.8); math.Abs(a-b) > 1e-12 || a < 1.4 {
		t.Errorf("a tenth more of the bandwidth multiplies latency by %v, then by %v", a, b)
	}
}
