package checkpoints_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"gearshift/checkpoints"
)

// hold opens a store's file as another process would.
func hold(t *testing.T, s *checkpoints.Store, readOnly bool) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(s.Path, 0o600, &bbolt.Options{ReadOnly: readOnly})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestLockedStore(t *testing.T) {
	s := newStore(t)
	put(t, s, "chat", 1, 1)
	want := "store " + s.Path + " is locked by another process (waited 3s); try again when that has finished, or use another store"

	writer := hold(t, s, false)
	for name, op := range operations(t, s, checkpoints.Ref{Name: "chat"}) {
		synctest.Test(t, func(t *testing.T) { // in which 3 s pass at once
			start := time.Now()
			err := op()
			if !errors.Is(err, checkpoints.ErrLocked) || err.Error() != prefix(name)+want {
				t.Errorf("%s: error\n\t%v\nwant\n\t%s", name, err, want)
			}
			if waited := time.Since(start); waited < 2900*time.Millisecond || waited > 3100*time.Millisecond {
				t.Errorf("%s waited %v, not 3 s", name, waited)
			}
		})
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}

	reader := hold(t, s, true)
	wantSample(t, s, "chat", 1, 1) // readers do not disturb each other
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &checkpoints.Store{Path: s.Path, Timeout: 200 * time.Millisecond}
		err := s.Promote("chat", 1, "")
		if want := `cannot promote policy "chat": store ` + s.Path + " is locked by another process (waited 200ms); try again when that has finished, or use another store"; !errors.Is(err, checkpoints.ErrLocked) || err.Error() != want {
			t.Errorf("error\n\t%v\nwant\n\t%s", err, want)
		}
		if waited := time.Since(start); waited > 250*time.Millisecond {
			t.Errorf("Promote waited %v, not 200 ms", waited)
		}
	})
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, s, "chat", 2, 2)
}

// Goroutines use one Store, as processes use one file. The first of them makes
// the store; none may miss another's version.
func TestConcurrentUse(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		s.Timeout = time.Minute
		s.Keep = -1
		const writers, versions = 4, 5
		var group sync.WaitGroup
		for w := range writers {
			c := sample(t, uint64(w))
			group.Go(func() {
				for i := range versions {
					if _, _, err := s.Put("chat", c, epoch); err != nil {
						t.Error(err)
					}
					if err := s.PutTraining(fmt.Sprint("run ", w), nil, []byte{byte(i)}); err != nil {
						t.Error(err)
					}
					if _, _, err := s.Get(checkpoints.Ref{Name: "chat"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		list, err := s.List()
		if err != nil || len(list) != writers*versions || list[len(list)-1].Version != writers*versions {
			t.Errorf("after %d writes there are %d versions, %v", writers*versions, len(list), err)
		}
	})
}
