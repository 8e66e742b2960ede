package evaluation

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
)

func TestPercentilesAreNearestRanks(t *testing.T) {
	for _, n := range []int{1, 2, 99, 100, 101, 200} {
		var v []float32
		for i := n; i > 0; i-- { // 1 … n, in the wrong order
			v = append(v, float32(i))
		}
		got := percentiles(v)
		// The p-th percentile is the smallest value that p % of all do not exceed.
		want := Percentiles{P50: float64((n + 1) / 2), P99: float64((99*n + 99) / 100)}
		if got != want {
			t.Errorf("of 1 … %d: %+v, want %+v", n, got, want)
		}
	}
	if got := percentiles(nil); got != (Percentiles{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// A window counts against the best that its own requests could have earned,
// whatever their weights.
func TestWindowsAreSharesOfTheirOwnPeak(t *testing.T) {
	utility, peak := make([]float64, WindowSize+1), make([]float64, WindowSize+1)
	for i := range utility {
		utility[i], peak[i] = 3, 3
	}
	utility[0] = 0 // in the first window alone: 19 of 20
	got := Windows(utility, peak)
	if want := [len(WindowLevels)]float64{1, 1, 1, 1, 2}; got != want {
		t.Errorf("windows at %v: %v, want %v", WindowLevels, got, want)
	}
	if got := Windows(utility[:WindowSize-1], peak[:WindowSize-1]); got != [len(WindowLevels)]float64{} {
		t.Errorf("fewer requests than a window have %v", got)
	}
}

// What is selected is what sorting gives, of equal values, sorted ones and any.
func TestSmallest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n < 60; n++ {
		for kinds := 1; kinds < 2*n; kinds += 7 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(rng.IntN(kinds))
			}
			want := slices.Sorted(slices.Values(v))
			for _, start := range [][]float32{v, want} {
				for k := range v {
					if got := smallest(slices.Clone(start), k); got != want[k] {
						t.Fatalf("the value of rank %d of %v is %v, not %v", k, start, got, want[k])
					}
				}
			}
		}
	}
}

// A request that fails with its host has no latency: those of the answers stand alone.
func TestFailedRequestsHaveNoLatency(t *testing.T) {
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "only"}}, []fleet.Host{{Name: "gpu"}}, []fleet.Replica{{Name: "only@gpu"}})
	if err != nil {
		t.Fatal(err)
	}
	var record recorder
	record.begin(table, nil)
	record.add(&env.Outcome{
		Decision: 1, OutputTokens: 100, FirstToken: 5 * time.Millisecond, Finished: 5 * time.Millisecond, Failed: true,
	})
	record.add(&env.Outcome{
		Decision: 0, OutputTokens: 10, FirstToken: 100 * time.Millisecond, Finished: 300 * time.Millisecond, Utility: 1, Met: true,
	})
	got := new(Plan).summarise(&Contestant{Fleet: env.Config{Table: table}}, "w", []tally{record.tally()}, 0)
	if got.TTFT != (Percentiles{100, 100}) || got.TPOT != (Percentiles{30, 30}) {
		t.Errorf("first tokens %+v, per token %+v; want 100 ms and 30 ms", got.TTFT, got.TPOT)
	}
	if got.Requests != 2 || got.Utility.Mean != 0.5 || got.DeadlineMet.Mean != 0.5 {
		t.Errorf("the request that failed is left out: %+v", got)
	}
}
