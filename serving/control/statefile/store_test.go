package statefile_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/control/statefile"
)

// TestStore: a state that comes while another is written waits, an older one that waits is left out, and the last
// one is what the next run finds.
func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		s, last, err := statefile.OpenStore[int]("test", path, time.Now())
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
	if s, last, err := statefile.OpenStore[int]("test", path, time.Now()); err != nil || last == nil || *last != 4 || s.Close(nil) != nil {
		t.Errorf("the next run finds %v, %v", last, err)
	}
	if _, _, err := statefile.OpenStore[string]("test", path, time.Now()); err == nil {
		t.Error("a state of another form is taken")
	}
	var none *statefile.Store[int]
	none.Begin(nil, nil)
	none.Keep(1)
	if err := none.Close(nil); err != nil {
		t.Error(err)
	}
}
