package checkpoints

import "fmt"

// Promote puts a version of a policy in production. The one that was in production
// becomes the previous. From now on, this policy is the store's [Store.Production].
// Forced is kept as the [Entry]'s. The version is a number, so that it is the very
// one that its caller has judged, whatever is stored meanwhile.
func (s *Store) Promote(name string, version int, forced string) error {
	return s.order("promote", name, func(x *index, p *policy) error {
		i := p.find(version)
		if i < 0 {
			return s.noVersion(name, version, p)
		}
		p.Versions[i].Forced = forced
		if now := x.inProduction(); now != (Ref{Name: name, Version: version}) {
			x.Before = &before{Ref: now, Own: p.Production}
		}
		if version != p.Production {
			p.Previous, p.Production = p.Production, version
		}
		x.Production = name
		return nil
	})
}

// order changes the index and a policy that has versions, as the verb says.
func (s *Store) order(verb, name string, change func(*index, *policy) error) error {
	err := s.update(func(t *tx) error {
		p, err := s.policy(t.index, name)
		if err != nil {
			return err
		}
		return change(t.index, p)
	})
	if err != nil {
		return fmt.Errorf("cannot %s %s %q: %w", verb, s.stored().noun, name, err)
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
	err := s.order("roll back", name, func(x *index, p *policy) error {
		if p.Previous == 0 {
			return &fault{ErrNotFound, "no earlier version was in production; promote the one to return to"}
		}
		v = p.Previous
		p.Production, p.Previous = v, 0
		x.Production, x.Before = name, nil
		return nil
	})
	if err != nil {
		return 0, err
	}
	return v, nil
}

// Restore puts a version in production again whose successor has been taken back
// elsewhere, as in a running router. It leaves what [Store.Rollback] leaves: no way back
// to the successor. A version that is in production keeps the way back that it has.
func (s *Store) Restore(name string, version int) error {
	return s.order("roll back", name, func(x *index, p *policy) error {
		if p.find(version) < 0 {
			return s.noVersion(name, version, p)
		}
		if x.inProduction() != (Ref{Name: name, Version: version}) {
			x.Before = nil
		}
		if version != p.Production {
			p.Production, p.Previous = version, 0
		}
		x.Production = name
		return nil
	})
}

// Back undoes the last Promote, whatever the names: the version that it replaced is in
// production again, and returned. That is one step, like [Store.Rollback]. Where none
// was in production, none is again, and the reference is empty. No promotion to undo is
// [ErrNotFound].
func (s *Store) Back() (Ref, error) {
	var ref Ref
	err := s.update(func(t *tx) error {
		x := t.index
		p, b := x.Policies[x.Production], x.Before
		if b == nil && p != nil && p.Previous != 0 { // of a store that kept names apart
			b = &before{Ref: Ref{Name: x.Production, Version: p.Previous}, Own: p.Previous}
		}
		if b == nil || p == nil {
			return &fault{ErrNotFound, "cannot roll back: no promotion is left to undo; promote the one to return to"}
		}
		if p.find(b.Own) < 0 { // removed since
			b.Own = 0
		}
		if b.Own != p.Production {
			p.Production, p.Previous = b.Own, 0
		}
		ref, x.Production, x.Before = b.Ref, b.Ref.Name, nil
		return nil
	})
	return ref, err
}

// Withdraw leaves none in production, of the name that was either. Nothing leads back.
func (s *Store) Withdraw() error {
	return s.update(func(t *tx) error {
		x := t.index
		if p := x.Policies[x.Production]; p != nil {
			p.Production, p.Previous = 0, 0
		}
		x.Production, x.Before = "", nil
		return nil
	})
}

// Before is the version that the last promotion replaced, to which [Store.Back]
// would return; false if nothing leads back, and empty if none was in production.
func (s *Store) Before() (ref Ref, ok bool, err error) {
	err = s.view(func(t *tx) error {
		if b := t.index.Before; b != nil {
			ref, ok = b.Ref, true
		}
		return nil
	})
	return ref, ok, err
}

// inProduction is the store's version in production, empty if there is none.
func (x *index) inProduction() Ref {
	p := x.Policies[x.Production]
	if p == nil || p.Production == 0 {
		return Ref{}
	}
	return Ref{Name: x.Production, Version: p.Production}
}

// Production is the policy that a server without other orders serves: the name
// last promoted or rolled back, at its version in production. None is [ErrNotFound].
func (s *Store) Production() (Ref, error) {
	var ref Ref
	err := s.view(func(t *tx) error {
		if ref = t.index.inProduction(); ref == (Ref{}) {
			return &fault{ErrNotFound, fmt.Sprintf("no %s of store %s is in production; %s puts one there", s.stored().noun, s.Path, s.stored().promoter)}
		}
		return nil
	})
	return ref, err
}
