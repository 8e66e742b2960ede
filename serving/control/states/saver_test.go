package states_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
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

// flaky is the state of several routers that fails to be saved while err is set.
type flaky struct {
	mu     sync.Mutex // protects what follows
	err    error
	saved  []string
	follow func(states.Turn) error
}

func (f *flaky) Open(string, time.Time) (states.State, error) { return f, nil }
func (f *flaky) Follow(follow func(states.Turn) error)        { f.follow = follow }
func (f *flaky) Term() uint64                                 { return 1 }
func (f *flaky) Path() string                                 { return "etcd" }
func (f *flaky) Last() []byte                                 { return nil }
func (f *flaky) Trouble() string                              { return "" }
func (f *flaky) Close() error                                 { return nil }

func (f *flaky) Save(text []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.saved = append(f.saved, string(text))
	}
	return f.err
}

func (f *flaky) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// TestAFailedSaveIsRetried: at growing intervals, until it succeeds, a newer state comes or this router's turn begins
// again; but not for a router that stands by.
func TestAFailedSaveIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{err: errors.New("no leader")}
		s, _, err := states.Open[int](f, states.Rollout, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		tries := 0
		s.Follow(func(states.Turn, *int) error { return nil })
		s.Begin(slog.New(slog.DiscardHandler), func(int, error) { tries++ })
		want := func(number int, saved ...string) {
			t.Helper()
			synctest.Wait()
			if tries != number || !slices.Equal(f.saved, saved) {
				t.Errorf("%d tries, saved %q; want %d, %q", tries, f.saved, number, saved)
			}
		}
		s.Keep(1)
		time.Sleep(400 * time.Millisecond)
		want(1)
		time.Sleep(time.Hour)
		if synctest.Wait(); tries < 60 || tries > 70 {
			t.Errorf("%d tries in an hour; want about one a minute", tries)
		}
		s.Keep(2)
		synctest.Wait()
		f.fail(nil)
		tries = 0
		time.Sleep(time.Hour)
		want(1, "2")

		f.fail(states.ErrStandsBy)
		s.Keep(3)
		time.Sleep(time.Hour)
		want(2, "2")

		f.fail(errors.New("no leader"))
		s.Keep(4)
		synctest.Wait()
		if err := f.follow(states.Turn{Acts: true, Term: 2, Last: []byte("5")}); err != nil {
			t.Error(err)
		}
		f.fail(nil)
		time.Sleep(time.Hour)
		want(3, "2")
		if err := s.Close(func() int { return 6 }); err != nil || !slices.Equal(f.saved, []string{"2", "6"}) {
			t.Errorf("Close: %v, saved %q", err, f.saved)
		}
	})
}
