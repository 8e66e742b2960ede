package workloads

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"
)

// TestMeasure holds the statistics against a sum by hand.
func TestMeasure(t *testing.T) {
	var l Given
	for i, at := range []float64{0.5, 0.6, 0.7, 2.5, 12.5, 12.6, 12.7, 12.8} {
		l = append(l, Arrival{At: time.Duration(at * 1e9), Task: i % 3, PromptTokens: 10, OutputTokens: i + 1})
	}
	got := Measure(&l)
	// Whole windows of 1 s hold 3, 0, 1 and nine times 0; of 10 s, one holds 4.
	mean := 4.0 / 12
	variance := (9 + 1 - 12*mean*mean) / 11
	gaps := []float64{0.1, 0.1, 1.8, 10, 0.1, 0.1, 0.1}
	var m moments
	for _, g := range gaps {
		m.add(g, 1)
	}
	want := Statistics{
		Requests: 8, Duration: 12.8, MeanRate: 7 / 12.3, GapCV: math.Sqrt(m.variance()) / m.mean,
		IDC1: variance / mean, IDC10: 0, Peak: 4, MeanPrompt: 10, MeanOutput: 4.5, Tasks: []int{3, 3, 2},
	}
	near(t, "gap CV", got.GapCV, want.GapCV, 1e-9)
	near(t, "IDC(1 s)", got.IDC1, want.IDC1, 1e-9)
	near(t, "mean rate", got.MeanRate, want.MeanRate, 1e-9)
	got.GapCV, got.IDC1, got.MeanRate = want.GapCV, want.IDC1, want.MeanRate
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// The statistics of next to nothing are numbers all the same.
func TestMeasureLittle(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, l := range []Given{{}, {{At: 5}}, {{At: 5}, {At: 5}}, {{At: 0}, {At: 200 * year}}} {
		n := len(l)
		got := Measure(&l)
		if got.Requests != n {
			t.Errorf("%d requests; want %d", got.Requests, n)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%+v: %v", got, err) // JSON has no NaN
		}
	}
}
