package main

import (
	"strings"
	"testing"
)

// So many requests at most are those of any workload, of one that ends by time too.
func TestWorkloadTakesSoManyRequests(t *testing.T) {
	for _, w := range []string{"stable:20", "u1", "trace:arena"} {
		out := succeed(t, "workload", "gen", w, "--scenario", "tiny", "--requests", "7")
		if n := strings.Count(out, "\n"); n != 7 {
			t.Errorf("%s: %d requests, want 7", w, n)
		}
	}
	if out := succeed(t, "workload", "gen", "stable:20", "--scenario", "tiny"); strings.Count(out, "\n") < 400 {
		t.Errorf("%d requests of a whole phase at 20/s", strings.Count(out, "\n"))
	}
}
