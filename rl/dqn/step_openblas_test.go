//go:build openblas

package dqn

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// A step allocates little at a large shape, too: what grows with the batch is kept.
// (gonum's BLAS allocates for its own part, some 120 KB.) The bytes are the least of
// several rounds, since the runtime allocates as well.
func TestStepAllocatesFewBytes(t *testing.T) {
	l := newTestLearner(t, testConfig(1024, 256, 256), 9, 3, 1)
	b := randomBatch(rand.New(rand.NewPCG(1, 1)), 1024, 9, 3)
	const steps, most = 4, 32 << 10
	least := uint64(math.MaxUint64)
	for range 4 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range steps {
			if _, err := l.Learn(b); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		least = min(least, (after.TotalAlloc-before.TotalAlloc)/steps)
	}
	if least > most {
		t.Errorf("%d bytes a step, want %d at most", least, most)
	}
	t.Logf("%d bytes a step", least)
}
