package checkpoints_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
)

// putPredictor stores bytes as a predictor and wants a version.
func putPredictor(t *testing.T, p *checkpoints.Predictors, name, data string, want int) {
	t.Helper()
	meta := checkpoints.Predictor{Columns: []string{"small", "large"}, Labels: 300, Sources: []checkpoints.Source{{Name: "mine.jsonl", SHA256: "00"}}, Seed: 7}
	if v, _, err := p.Put(name, []byte(data), meta, epoch.Add(time.Hour)); err != nil || v != want {
		t.Fatalf("Put(%q) = %d, %v; want version %d", name, v, err, want)
	}
}

// A predictor and a policy of one name have versions and production of their own.
func TestPredictorsAreApartFromPolicies(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		p := s.Predictors()
		put(t, s, "mine", 1, 1)
		putPredictor(t, p, "mine", "first", 1)
		putPredictor(t, p, "mine", "second", 2)
		promote(t, s, "mine", 1)
		if _, err := p.Production(); !errors.Is(err, checkpoints.ErrNotFound) {
			t.Errorf("a predictor is in production: %v", err)
		}
		if err := p.Promote("mine", 2, "a test"); err != nil {
			t.Fatal(err)
		}
		wantProduction(t, s, "mine@1")
		wantVersions(t, s, "mine@1 production")
		data, e, err := p.Get(checkpoints.Ref{Name: "mine"})
		if err != nil || string(data) != "second" || e.Ref().String() != "mine@2" || e.Forced != "a test" || e.Predictor.Labels != 300 || !e.Created.Equal(epoch.Add(time.Hour)) {
			t.Errorf("Get = %q, %+v, %v", data, e, err)
		}
		if ref, err := p.Back(); err != nil || ref.Name != "" {
			t.Errorf("Back = %v, %v; want none", ref, err)
		}
		if removed, err := p.Remove(checkpoints.Ref{Name: "mine"}, false); err != nil || !slices.Equal(removed, []int{1, 2}) {
			t.Errorf("Remove = %v, %v", removed, err)
		}
		wantSample(t, s, "mine", 1, 1)
		_, _, err = p.Get(checkpoints.Ref{Name: "mine"})
		wantError(t, err, checkpoints.ErrNotFound, `no predictor "mine" in store `+s.Path+"; it has no predictor yet: `gearshift quality fit` makes one")
		putPredictor(t, p, "mine", "third", 3)
	})
}

// A store without predictors says so, and is not changed by being asked.
func TestStoreWithoutPredictors(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		_, err := s.Predictors().List()
		wantError(t, err, checkpoints.ErrNotFound, "no checkpoint store at "+s.Path+"; `gearshift quality fit` makes one")
		put(t, s, "mine", 1, 1)
		before, err := s.Verify()
		if err != nil {
			t.Fatal(err)
		}
		if list, err := s.Predictors().List(); err != nil || len(list) > 0 {
			t.Errorf("List = %v, %v", list, err)
		}
		_, err = s.Predictors().Production()
		wantError(t, err, checkpoints.ErrNotFound, "no predictor of store "+s.Path+" is in production; `gearshift quality promote` puts one there")
		if after, err := s.Verify(); err != nil || after.Transaction != before.Transaction || after.Size != before.Size {
			t.Errorf("reading changed the store: %+v, %v; it was %+v", after, err, before)
		}
	})
}

// The key of the features stays the same in a store, and differs between stores.
func TestKeyOfFeatures(t *testing.T) { onBoth(t, keyOfFeatures) }

func keyOfFeatures(t *testing.T, s *checkpoints.Store) {
	first, err := s.Predictors().Key()
	if err != nil {
		t.Fatal(err)
	}
	putPredictor(t, s.Predictors(), "mine", "first", 1)
	if again, err := s.Predictors().Key(); err != nil || again != first {
		t.Errorf("the key is %x, %v; it was %x", again, err, first)
	}
	if other, err := newStore(t).Predictors().Key(); err != nil || other == first {
		t.Errorf("another store has the key %x, %v", other, err)
	}
}

// Verify and compaction cover predictors.
func TestPredictorsAreMaintained(t *testing.T) {
	s := newStore(t)
	body := strings.Repeat("weights ", 5000)
	putPredictor(t, s.Predictors(), "mine", body, 1)
	key, err := s.Predictors().Key()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Compact(); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Verify(); err != nil || h.Predictors != 1 || len(h.Faults)+len(h.Warnings) > 0 {
		t.Errorf("Verify = %+v, %v", h, err)
	}
	if now, err := s.Predictors().Key(); err != nil || now != key {
		t.Errorf("the key is %x after compaction, %v; it was %x", now, err, key)
	}
	whole, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(whole, []byte("weights weights"), []byte("weights WEIGHTS"), 1)
	if err := os.WriteFile(s.Path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Verify(); err != nil || len(h.Faults) != 1 || !strings.HasPrefix(h.Faults[0], "predictor mine@1: its 40000 bytes are not") {
		t.Errorf("Verify of a damaged predictor = %+v, %v", h, err)
	}
	if _, _, err := s.Predictors().Get(checkpoints.Ref{Name: "mine"}); !errors.Is(err, checkpoints.ErrCorrupted) {
		t.Errorf("Get of a damaged predictor: %v", err)
	}
}

func TestPredictorReferences(t *testing.T) {
	if ref, err := checkpoints.ParsePredictorRef("mine@2"); err != nil || ref != (checkpoints.Ref{Name: "mine", Version: 2}) {
		t.Errorf("mine@2 is %v, %v", ref, err)
	}
	_, err := checkpoints.ParsePredictorRef("Mine")
	wantError(t, err, checkpoints.ErrInvalidName, `cannot read predictor reference "Mine": predictor name "Mine" may hold only a-z, 0-9, '.', '_' and '-'`)
}
