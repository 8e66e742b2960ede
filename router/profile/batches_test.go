package profile_test

import (
	"math"
	"strings"
	"testing"

	"gearshift/router/profile"
)

func batches(t testing.TB, kinds map[string]map[int]float64) *profile.Batches {
	t.Helper()
	b, err := profile.NewBatches(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Times between the sizes measured lie on the line between them; the largest is the
// largest batch.
func TestBatchesBetweenSizes(t *testing.T) {
	b := batches(t, map[string]map[int]float64{
		"audio": {1: 5, 2: 8, 4: 8, 8: 20}, // padded to 4
		"video": {1: 30},
	})
	for n, want := range map[int]float64{0: 5, 1: 5, 2: 8, 3: 8, 4: 8, 5: 11, 6: 14, 7: 17, 8: 20, 9: 20} {
		if got := b.Time(b.Kind("audio"), n); math.Abs(got-want) > 1e-12 {
			t.Errorf("a batch of %d takes %v ms, want %v", n, got, want)
		}
	}
	if a, v := b.Most(b.Kind("audio")), b.Most(b.Kind("video")); a != 8 || v != 1 {
		t.Errorf("the largest batches are of %d and %d, want 8 and 1", a, v)
	}
	if b.Kind("text") != -1 || strings.Join(b.Kinds(), " ") != "audio video" {
		t.Errorf("text is kind %d of %q", b.Kind("text"), b.Kinds())
	}
	if one := batches(t, map[string]map[int]float64{"": {1: 5}}); one.Kind("text") != 0 || one.Kind("") != 0 {
		t.Error("the only kind, without a name, does not stand for all")
	}
}

// A table of every combination of three modalities at every batch up to 64 has 448 times.
func TestBatchesOfModalities(t *testing.T) {
	kinds := map[string]map[int]float64{}
	for _, kind := range strings.Fields("t a v ta tv av tav") {
		kinds[kind] = map[int]float64{}
		for n := 1; n <= 64; n++ {
			kinds[kind][n] = float64(len(kind)*10 + n)
		}
	}
	b, times := batches(t, kinds), 0
	for k, kind := range b.Kinds() {
		times += b.Most(k)
		for n := 1; n <= b.Most(k); n++ {
			if got := b.Time(k, n); got != kinds[kind][n] {
				t.Fatalf("%s by %d takes %v ms, want %v", kind, n, got, kinds[kind][n])
			}
		}
	}
	if times != 448 {
		t.Errorf("%d times, want 448", times)
	}
}

func TestBatchesNameEveryFault(t *testing.T) {
	_, err := profile.NewBatches(map[string]map[int]float64{
		"":      {2: 7},
		"image": {0: 1, 1: 5, 2: -3, 4: math.NaN(), 8: 4, 5000: 9},
	})
	const want = `batch 1: missing; want a time, since a request may be alone
kind "image", batch 0: a batch is of 1 to 4096 requests
kind "image", batch 2: a time is above 0 ms, not -3
kind "image", batch 4: a time is above 0 ms, not NaN
kind "image", batch 8: 4 ms is less than the 5 ms of a batch of 1; a larger batch takes no less
kind "image", batch 5000: a batch is of 1 to 4096 requests`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := profile.NewBatches(nil); err == nil {
		t.Error("a table without times is taken")
	}
}

// Neighbours slow all of a batch but its overhead.
func TestBatchBesideNeighbours(t *testing.T) {
	p := &profile.Profile{Overhead: 2, Contention: 0.5, Batches: batches(t, map[string]map[int]float64{"": {1: 12, 2: 22}})}
	for _, x := range []struct {
		n               int
		neighbours      float64
		wantMS, wantGPU float64
	}{{1, 0, 12, 10}, {2, 0, 22, 20}, {2, 1, 32, 20}, {1, 2, 22, 10}} {
		if ms, gpu := p.Batch(0, x.n, x.neighbours); ms != x.wantMS || gpu != x.wantGPU {
			t.Errorf("a batch of %d beside %v takes %v ms, %v of them on the GPU; want %v and %v", x.n, x.neighbours, ms, gpu, x.wantMS, x.wantGPU)
		}
		// Those that know of steps alone hear the same.
		if ms, duty := p.Step(x.n, x.n, 100, x.neighbours); ms != x.wantMS || duty != x.wantGPU/x.wantMS {
			t.Errorf("as a step, a batch of %d takes %v ms at a duty of %v", x.n, ms, duty)
		}
	}
	if p.Prefill(100, 0) != 0 {
		t.Error("a prompt has a step of its own")
	}
	twice, gpu := p.Slower(2), p.SlowerGPU(2)
	if ms, _ := twice.Batch(0, 1, 0); ms != 24 {
		t.Errorf("of an engine half as quick, %v ms, want 24", ms)
	}
	if ms, _ := gpu.Batch(0, 1, 0); ms != 22 {
		t.Errorf("on a GPU half as quick, %v ms, want 22", ms)
	}
	if ms, _ := p.Batch(0, 1, 0); ms != 12 {
		t.Errorf("and the profile itself now takes %v ms", ms)
	}
}
