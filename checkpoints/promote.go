package checkpoints

import "fmt"

// Promote puts a version of a policy in production. The one that was in production
// becomes the previous. From now on, this policy is the store's [Store.Production].
// Forced is kept as the [Entry]'s. The version is a number, so that it is the very
// one that its caller has judged, whatever is stored meanwhile.
func (s *Store) Promote(name string, version int, forced string) error {
	err := s.update(func(t *tx) error {
		p, err := s.policy(t.index, name)
		if err != nil {
			return err
		}
		i := p.find(version)
		if i < 0 {
			return noVersion(name, version, p)
		}
		p.Versions[i].Forced = forced
		if version != p.Production {
			p.Previous, p.Production = p.Production, version
		}
		t.index.Production = name
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot promote policy %q: %w", name, err)
	}
	return nil
}

// Rollback puts the version that was in production before the last Promote in
// production again, and returns it. As after a Promote, this policy is the store's
// [Store.Production]. That is one step: the next needs another Promote, so that a
// second Rollback does not bring the bad version back. None to return to is
// [ErrNotFound].
func (s *Store) Rollback(name string) (int, error) {
	var v int
	err := s.update(func(t *tx) error {
		p, err := s.policy(t.index, name)
		if err != nil {
			return err
		}
		if p.Previous == 0 {
			return &fault{ErrNotFound, "no earlier version was in production; promote the one to return to"}
		}
		v = p.Previous
		p.Production, p.Previous = v, 0
		t.index.Production = name
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot roll back policy %q: %w", name, err)
	}
	return v, nil
}

// Restore puts a version in production again whose successor has been taken back
// elsewhere, as in a running router. It leaves what [Store.Rollback] leaves: no way back
// to the successor. A version that is in production keeps the way back that it has.
func (s *Store) Restore(name string, version int) error {
	err := s.update(func(t *tx) error {
		p, err := s.policy(t.index, name)
		if err != nil {
			return err
		}
		if p.find(version) < 0 {
			return noVersion(name, version, p)
		}
		if version != p.Production {
			p.Production, p.Previous = version, 0
		}
		t.index.Production = name
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot roll back policy %q: %w", name, err)
	}
	return nil
}

// Production is the policy that a server without other orders serves: the name
// last promoted or rolled back, at its version in production. None is [ErrNotFound].
func (s *Store) Production() (Ref, error) {
	var ref Ref
	err := s.view(func(t *tx) error {
		p := t.index.Policies[t.index.Production]
		if p == nil || p.Production == 0 {
			return &fault{ErrNotFound, fmt.Sprintf("no policy of store %s is in production; `gearshift policy promote` puts one there", s.Path)}
		}
		ref = Ref{Name: t.index.Production, Version: p.Production}
		return nil
	})
	return ref, err
}
