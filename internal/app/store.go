package app

import (
	"context"
	"errors"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
	"gearshift/serving/admin/trial"
	"gearshift/serving/config/files"
)

// guardedStore is the store of policies for a server that runs: what takes too long, as
// where the file system hangs, fails.
type guardedStore struct {
	source *policies.Source
	guard  files.Guard
}

// storePatience is how long an operation on the store may take: it may wait for another
// process that writes, and a policy takes time to load.
const storePatience = 15 * time.Second

func newGuardedStore(source *policies.Source) *guardedStore {
	return &guardedStore{source: source, guard: files.Guard{Patience: storePatience}}
}

// none is the result of operations that have nothing to return.
type none = struct{}

// guarded runs an operation on the store.
func guarded[T any](s *guardedStore, operation func() (T, error)) (T, error) {
	return files.Within(context.Background(), &s.guard, s.source.Store.Path, operation)
}

func (s *guardedStore) do(operation func() error) error {
	_, err := guarded(s, func() (none, error) { return none{}, operation() })
	return err
}

func (s *guardedStore) Lookup(ref checkpoints.Ref) (checkpoints.Entry, error) {
	return guarded(s, func() (checkpoints.Entry, error) { return s.source.Store.Lookup(ref) })
}

// Get returns a version and its content, which is nil if it stands for a rule.
func (s *guardedStore) Get(ref checkpoints.Ref) (*checkpoints.Checkpoint, checkpoints.Entry, error) {
	type got struct {
		*checkpoints.Checkpoint
		entry checkpoints.Entry
	}
	g, err := guarded(s, func() (g got, err error) {
		if g.entry, err = s.source.Store.Lookup(ref); err != nil || g.entry.Rule != "" {
			return g, err
		}
		g.Checkpoint, g.entry, err = s.source.Store.Get(ref)
		return g, err
	})
	return g.Checkpoint, g.entry, err
}

func (s *guardedStore) List() ([]checkpoints.Entry, error) { return guarded(s, s.source.Store.List) }

func (s *guardedStore) Production() (checkpoints.Ref, error) {
	return guarded(s, s.source.Store.Production)
}

// away returns the error of an order while a shared store does not answer; nil otherwise.
func (s *guardedStore) away() error {
	if !s.source.Store.Shared() {
		return nil
	}
	if _, err := s.Production(); errors.Is(err, checkpoints.ErrAway) || errors.Is(err, files.ErrHangs) {
		return trial.Unavailable(err)
	}
	return nil
}

// Before reports whether the policy in production was promoted, rather than restored.
func (s *guardedStore) Before() (promoted bool, err error) {
	return guarded(s, func() (bool, error) {
		_, promoted, err := s.source.Store.Before()
		return promoted, err
	})
}

func (s *guardedStore) PutRule(rule string, at time.Time) (checkpoints.Entry, error) {
	return guarded(s, func() (checkpoints.Entry, error) {
		entry, _, err := s.source.Store.PutRule(rule, at)
		return entry, err
	})
}

func (s *guardedStore) Promote(name string, version int, reason string) error {
	return s.do(func() error { return s.source.Store.Promote(name, version, reason) })
}

func (s *guardedStore) Restore(name string, version int) error {
	return s.do(func() error { return s.source.Store.Restore(name, version) })
}

func (s *guardedStore) PutTable(name string, t checkpoints.StoredTable) error {
	return s.do(func() error { return s.source.Store.PutTable(name, t) })
}

func (s *guardedStore) Withdraw() error { return s.do(s.source.Store.Withdraw) }

// Rule returns the rule that a stored version stands for; empty if it is none.
func (s *guardedStore) Rule(ref string) (string, error) {
	return guarded(s, func() (string, error) {
		rule, _ := s.source.Rule(ref)
		return rule, nil
	})
}

// Stored loads a policy.
func (s *guardedStore) Stored(ref string, m *policy.Maker) (policy.Network, checkpoints.Entry, error) {
	type loaded struct {
		policy.Network
		entry checkpoints.Entry
	}
	l, err := guarded(s, func() (l loaded, err error) {
		l.Network, l.entry, err = s.source.Stored(ref, m)
		return l, err
	})
	return l.Network, l.entry, err
}
