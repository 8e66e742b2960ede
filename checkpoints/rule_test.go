package checkpoints_test

import (
	"errors"
	"fmt"
	"testing"

	"gearshift/checkpoints"
)

// putRule stores a rule and wants its version.
func putRule(t *testing.T, s *checkpoints.Store, rule, want string) {
	t.Helper()
	if e, _, err := s.PutRule(rule, epoch); err != nil || e.Ref().String() != want || e.Rule != rule {
		t.Errorf("PutRule(%s) = %s, %v; want %s", rule, e.Ref(), err, want)
	}
}

// A rule is a version of the name of its kind, once, and has no network.
func TestRulesAreVersions(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		putRule(t, s, "task-aware:1,0.08", "task-aware@1")
		putRule(t, s, "task-aware:0.9", "task-aware@2")
		putRule(t, s, "task-aware:1,0.08", "task-aware@1")
		putRule(t, s, "static:small", "static@1")
		put(t, s, "chat", 1, 1)
		promote(t, s, "task-aware", 1)
		wantVersions(t, s, "chat@1", "static@1", "task-aware@1 production", "task-aware@2")
		wantProduction(t, s, "task-aware@1")
		e, err := s.Lookup(checkpoints.Ref{Name: "task-aware", Alias: checkpoints.Production})
		if err != nil || e.Rule != "task-aware:1,0.08" || !e.Created.Equal(epoch) || e.Digest != checkpoints.Digest([]byte(e.Rule)) {
			t.Errorf("in production is %+v, %v", e, err)
		}
		_, _, err = s.Get(checkpoints.Ref{Name: "task-aware", Version: 2})
		wantError(t, err, checkpoints.ErrContent, `policy "task-aware@2" is the rule task-aware:0.9, which has no network`)
		_, err = s.LookupRule("slackfit:0.9")
		wantError(t, err, checkpoints.ErrNotFound, "the rule slackfit:0.9 is not in store "+s.Path+"; `gearshift policy promote` puts it there")
		_, _, err = s.PutRule("a rule", epoch)
		if !errors.Is(err, checkpoints.ErrInvalidName) {
			t.Errorf("a rule of no kind: %v", err)
		}
		remove(t, s, "task-aware", true, 1, 2)
		putRule(t, s, "task-aware:1,0.08", "task-aware@3")
	})
}

// Back undoes the last promotion alone, whatever the names, and leaves each name as it was.
func TestBack(t *testing.T) {
	onBoth(t, func(t *testing.T, s *checkpoints.Store) {
		put(t, s, "chat", 1, 1)
		put(t, s, "chat", 2, 2)
		putRule(t, s, "slackfit:0.9", "slackfit@1")
		back := func(want string) {
			t.Helper()
			if ref, err := s.Back(); err != nil || ref.String() != want {
				t.Errorf("Back = %v, %v; want %q", ref, err, want)
			}
			_, err := s.Back()
			wantError(t, err, checkpoints.ErrNotFound, "cannot roll back: no promotion is left to undo; promote the one to return to")
		}
		promote(t, s, "chat", 1)
		back("")
		wantVersions(t, s, "chat@1", "chat@2", "slackfit@1")
		if ref, err := s.Production(); !errors.Is(err, checkpoints.ErrNotFound) {
			t.Errorf("in production is %v, %v", ref, err)
		}
		promote(t, s, "chat", 1)
		promote(t, s, "slackfit", 1)
		if ref, ok, err := s.Before(); err != nil || !ok || ref.String() != "chat@1" {
			t.Errorf("Before = %v, %t, %v", ref, ok, err)
		}
		back("chat@1")
		wantVersions(t, s, "chat@1 production", "chat@2", "slackfit@1")
		wantProduction(t, s, "chat@1")
		promote(t, s, "slackfit", 1)
		promote(t, s, "chat", 1) // which its name has in production already
		back("slackfit@1")
		wantVersions(t, s, "chat@1 production", "chat@2", "slackfit@1 production")
		promote(t, s, "chat", 2)
		remove(t, s, "slackfit@1", true, 1)
		if _, ok, err := s.Before(); ok || err != nil {
			t.Errorf("what was removed is still the one before: %v", err)
		}
		if ref, err := s.Back(); err != nil || ref.String() != "chat@1" { // the name's own
			t.Errorf("Back = %v, %v", ref, err)
		}
		promote(t, s, "chat", 2)
		if err := s.Withdraw(); err != nil {
			t.Error(err)
		}
		wantVersions(t, s, "chat@1", "chat@2")
		if _, err := s.Production(); !errors.Is(err, checkpoints.ErrNotFound) {
			t.Error(fmt.Sprint("in production after Withdraw: ", err))
		}
	})
}
