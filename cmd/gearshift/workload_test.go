package main

import (
	"strings"
	"testing"
)

// So many requests at most are those of any workload, of one that ends by time too.
func TestWorkloadTakesSoManyRequests(t *testing.T) {
	for _, w := range []string{"stable:20", "schedule:20x9", "u1", "trace:arena"} {
		out := succeed(t, "workload", "gen", w, "--scenario", "tiny", "--requests", "7")
		if n := strings.Count(out, "\n"); n != 7 {
			t.Errorf("%s: %d requests, want 7", w, n)
		}
	}
	for w, least := range map[string]int{"stable:20": 400, "schedule:0x60,50x60": 2500} {
		if out := succeed(t, "workload", "gen", w, "--scenario", "tiny"); strings.Count(out, "\n") < least {
			t.Errorf("%s: %d requests in all of its time, want some %d", w, strings.Count(out, "\n"), least)
		}
	}
}
