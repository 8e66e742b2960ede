package states_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/control/states"
)

// TestSaver: a state that comes while another is written waits, an older one that waits is left out, and the last
// one is what the next run finds.
func TestSaver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		s, last, err := states.Open[int](states.At(path), states.Rollout, time.Now())
		if err != nil || last != nil {
			t.Fatal(last, err)
		}
		var written []int
		s.Begin(slog.New(slog.DiscardHandler), func(x int, err error) {
			time.Sleep(time.Second)
			if written = append(written, x); err != nil {
				t.Error(err)
			}
		})
		s.Keep(1)
		time.Sleep(time.Millisecond)
		s.Keep(2)
		s.Keep(3)
		time.Sleep(1500 * time.Millisecond)
		if err := s.Close(func() int { return 4 }); err != nil || !slices.Equal(written, []int{1, 3}) {
			t.Errorf("written %v, %v; want 1 and 3", written, err)
		}
	})
	if s, last, err := states.Open[int](states.At(path), states.Rollout, time.Now()); err != nil || last == nil || *last != 4 || s.Close(nil) != nil {
		t.Errorf("the next run finds %v, %v", last, err)
	}
	if _, _, err := states.Open[string](states.At(path), states.Rollout, time.Now()); err == nil {
		t.Error("a state of another form is taken")
	}
	var none *states.Saver[int]
	none.Begin(nil, nil)
	none.Keep(1)
	if err := none.Close(nil); err != nil {
		t.Error(err)
	}
}
