package checkpoints_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"gearshift/checkpoints"
)

// noise is n bytes that no compression would shrink.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestTraining(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		const mib = 1 << 20
		for i, size := range []int{0, 1, mib, mib + 1, 7 * mib / 2, 5} { // and each replaces the one before
			want := checkpoints.Training{Meta: json.RawMessage(`{"decisions":7}`), Progress: noise(uint64(i), size)}
			if err := s.PutTraining("tiny/quick seed 1", want.Meta, want.Progress); err != nil {
				t.Fatal(err)
			}
			got, err := s.GetTraining("tiny/quick seed 1")
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Progress, want.Progress) || !bytes.Equal(got.Meta, want.Meta) {
				t.Errorf("progress of %d bytes comes back as %d others, or its metadata as %s", size, len(got.Progress), got.Meta)
			}
		}
		if err := s.PutTraining("other", nil, []byte("progress")); err != nil {
			t.Fatal(err)
		}
		_, err := s.GetTraining("tiny/quick seed 2")
		wantError(t, err, checkpoints.ErrNotFound, `no progress of a training "tiny/quick seed 2" in store `+s.Path)
		if got, err := s.GetTraining("other"); err != nil || string(got.Progress) != "progress" || got.Meta != nil {
			t.Errorf("GetTraining of the other run = %+v, %v", got, err)
		}
	})
}

func TestFinishKeepsTheProgress(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		put(t, s, "chat", 1, 1)
		_, _, err := s.Finish("run", "chat", sample(t, 2), epoch)
		wantError(t, err, checkpoints.ErrNotFound, `cannot store policy "chat": no progress of a training "run" in store `+s.Path)
		wantVersions(t, s, "chat@1")

		progress := noise(1, 3<<20)
		if err := s.PutTraining("run", nil, progress); err != nil {
			t.Fatal(err)
		}
		if v, _, err := s.Finish("run", "chat", sample(t, 2), epoch.Add(2e9)); err != nil || v != 2 {
			t.Fatalf("Finish = %d, %v; want 2", v, err)
		}
		wantSample(t, s, "chat@2", 2, 2)
		got, err := s.GetTraining("run")
		if want := (checkpoints.Training{Progress: progress, Policy: checkpoints.Ref{Name: "chat", Version: 2}}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("after Finish, the run has %d bytes of progress, policy %v, %v", len(got.Progress), got.Policy, err)
		}

		if err := s.PutTraining("run", nil, progress[:10]); err != nil { // it continues
			t.Fatal(err)
		}
		if got, err := s.GetTraining("run"); err != nil || got.Policy != (checkpoints.Ref{}) {
			t.Errorf("a run that continues ended with %v, %v", got.Policy, err)
		}
	})
}

// A run that is over leaves a note of what it ended with, and room for others.
func TestFinishDropsTheProgressOfWhatIsOver(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		meta := json.RawMessage(`{"decisions":7}`)
		size := func() int64 {
			h, err := s.Verify()
			if err != nil {
				t.Fatal(err)
			}
			return h.Size
		}
		var first int64
		for i := range 5 {
			run := fmt.Sprint("run", i)
			for _, part := range []string{run, run + "+2", "other"} {
				if err := s.PutTraining(part, meta, noise(uint64(i), 3<<20)); err != nil {
					t.Fatal(err)
				}
			}
			if v, _, err := s.Finish(run, "chat", sample(t, 2), epoch, run, run+"+2", run+"+3"); err != nil || v != i+1 {
				t.Fatalf("Finish = %d, %v; want %d", v, err, i+1)
			}
			got, err := s.GetTraining(run)
			if want := (checkpoints.Training{Meta: meta, Progress: []byte{}, Policy: checkpoints.Ref{Name: "chat", Version: i + 1}}); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("after Finish, the run has %d bytes of progress, policy %v, %v", len(got.Progress), got.Policy, err)
			}
			_, err = s.GetTraining(run + "+2")
			wantError(t, err, checkpoints.ErrNotFound, `no progress of a training "`+run+`+2" in store `+s.Path)
			if got, err := s.GetTraining("other"); err != nil || len(got.Progress) != 3<<20 {
				t.Errorf("the other run has %d bytes of progress, %v", len(got.Progress), err)
			}
			if first == 0 {
				first = size()
			}
		}
		if last := size(); last > 2*first {
			t.Errorf("five runs that are over take %d MB, one %d MB", last>>20, first>>20)
		}
	})
}

// What is forgotten of a run leaves the policies, and other runs.
func TestForget(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		for _, run := range []string{"run", "run+2", "other"} {
			if err := s.PutTraining(run, nil, noise(1, 2<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Finish("run", "chat", sample(t, 1), epoch); err != nil {
			t.Fatal(err)
		}
		if err := s.Forget(func(run string) bool { return run != "other" }); err != nil {
			t.Fatal(err)
		}
		for _, run := range []string{"run", "run+2"} {
			_, err := s.GetTraining(run)
			wantError(t, err, checkpoints.ErrNotFound, `no progress of a training "`+run+`" in store `+s.Path)
		}
		if got, err := s.GetTraining("other"); err != nil || len(got.Progress) != 2<<20 {
			t.Errorf("the other run has %d bytes of progress, %v", len(got.Progress), err)
		}
		wantVersions(t, s, "chat@1")
	})
}

// bbolt gives the pages of one write's progress back to the write after next:
// the file must settle near twice what it holds.
func TestRewrittenProgressDoesNotGrowTheFile(t *testing.T) {
	s := newStore(t)
	const size = 30 << 20
	progress := noise(1, size)
	for i := range 20 {
		progress[i] ^= 0xff
		if err := s.PutTraining("run", nil, progress[:size-i*12345]); err != nil {
			t.Fatal(err)
		}
		put(t, s, "chat", uint64(i), i+1)
	}
	info, err := os.Stat(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.2f times its content", float64(info.Size())/size)
	if info.Size() > 3*size {
		t.Errorf("a store of %d MB of progress has grown to %d MB", size>>20, info.Size()>>20)
	}
}
