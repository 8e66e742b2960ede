package checkpoints

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Store is a file of policies and training progress. The zero value with a Path
// is ready to use. It keeps nothing open or in memory between calls, so that
// goroutines and processes may use one file at the same time; each call that
// finds it locked waits.
//
// Besides the errors that they name, methods return [ErrLocked],
// [ErrCorrupted] and [ErrNewerFormat], and those of the file system. Those that
// only read a store, or change what it holds, report a missing one as
// [ErrNotFound].
type Store struct {
	Path string
	// Timeout is how long a call waits for another process; 0 means 3 s.
	Timeout time.Duration
	// Keep is how many of each policy's newest versions are kept, in addition to those
	// that have an alias; 0 means 10, below 0 all of them.
	Keep int
	// Warn gets warnings of damage that the store has got over; nil writes them to
	// standard error. Each is given once.
	Warn func(text string)

	kind *kind // of what the methods are about; nil: policies
}

func (s *Store) timeout() time.Duration { return cmp.Or(s.Timeout, 3*time.Second) }

// Entry is what a store knows of one version of a policy.
type Entry struct {
	Name    string
	Version int
	Created time.Time // UTC
	Digest  string    // of the checkpoint's bytes, see Digest
	Size    int       // of the checkpoint, in bytes
	Aliases []string  // sorted
	Meta    Meta
	// Rule is the reference of the rule that the version stands for, with its parameters;
	// empty of a checkpoint.
	Rule string
	// Forced is the reason for which the version was last promoted although its
	// evaluation did not warrant it; empty if it did, or if it never was.
	Forced string
	// Predictor describes an entry of [Store.Predictors]; nil of a policy.
	Predictor *Predictor
}

// Ref points at this very version.
func (e *Entry) Ref() Ref { return Ref{Name: e.Name, Version: e.Version} }

// Put stores c as a new version of a policy and returns its number: one higher
// than the highest that the name ever had. Versions beyond Keep are removed in
// the same transaction, and returned. It creates the store, and the folder it lies
// in, where there is none.
func (s *Store) Put(name string, c *Checkpoint, created time.Time) (version int, removed []int, err error) {
	r, data, err := s.prepare(name, c, created)
	if err != nil {
		return 0, nil, err
	}
	if err := s.create(); err != nil {
		return 0, nil, err
	}
	err = s.update(func(t *tx) (err error) {
		version, removed, err = s.add(t, name, r, data)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return version, removed, nil
}

// prepare does the part of Put that needs no store.
func (s *Store) prepare(name string, c *Checkpoint, created time.Time) (version, []byte, error) {
	if err := checkName("policy", name); err != nil {
		return version{}, nil, fmt.Errorf("cannot store policy: %w", err)
	}
	data, err := Encode(c)
	if err != nil {
		return version{}, nil, fmt.Errorf("cannot store policy %q: %w", name, err)
	}
	r := newVersion(data, created)
	r.Meta = c.Meta
	r.Meta.Format = Format
	return r, data, nil
}

// newVersion describes the bytes of a version, which is not numbered yet.
func newVersion(data []byte, created time.Time) version {
	return version{Created: created.Round(0).UTC(), Digest: Digest(data), Size: len(data)}
}

// add does the part of Put that needs the transaction.
func (s *Store) add(t *tx, name string, r version, data []byte) (v int, removed []int, err error) {
	p := t.index.Policies[name]
	if p == nil {
		p = &policy{}
		t.index.Policies[name] = p
	}
	p.Last++
	r.Version = p.Last
	p.Versions = append(p.Versions, r)
	if err := t.policies.Put(blobKey(name, r.Version), data); err != nil {
		return 0, nil, s.corrupted(err.Error())
	}
	if s.Keep >= 0 {
		removed = p.prune(cmp.Or(s.Keep, 10))
	}
	return r.Version, removed, s.discard(t, name, removed)
}

// discard removes the blobs of versions that the index no longer has.
func (s *Store) discard(t *tx, name string, versions []int) error {
	for _, v := range versions {
		if err := t.policies.Delete(blobKey(name, v)); err != nil {
			return s.corrupted(err.Error())
		}
	}
	return nil
}

// Get loads the policy that ref points at: the version or alias it names, or
// else the version in production, or else the newest. What is not there is
// [ErrNotFound], a rule [ErrContent]; the errors of [Decode] come with the policy's name.
func (s *Store) Get(ref Ref) (*Checkpoint, Entry, error) {
	data, e, err := s.read(ref)
	if err != nil {
		return nil, Entry{}, err
	}
	if e.Rule != "" {
		return nil, Entry{}, &fault{ErrContent, fmt.Sprintf("policy %q is the rule %s, which has no network", e.Ref(), e.Rule)}
	}
	c, err := Decode(data)
	if err != nil {
		return nil, Entry{}, fmt.Errorf("cannot load policy %q: %w", e.Ref(), err)
	}
	return c, e, nil
}

// read returns the bytes that ref points at, which are those that were written.
func (s *Store) read(ref Ref) ([]byte, Entry, error) {
	var e Entry
	var data []byte
	err := s.view(func(t *tx) (err error) {
		if e, err = s.resolve(t.index, ref); err != nil {
			return err
		}
		data = bytes.Clone(t.policies.Get(blobKey(e.Name, e.Version)))
		return nil
	})
	if err != nil {
		return nil, Entry{}, err
	}
	if noun := s.stored().noun; Digest(data) != e.Digest {
		return nil, Entry{}, fmt.Errorf("cannot load %s %q: %w", noun, e.Ref(),
			s.corrupted(fmt.Sprintf("the %s's %d bytes are not the %d that were written", noun, len(data), e.Size)))
	}
	return data, e, nil
}

// Lookup is Get without the checkpoint.
func (s *Store) Lookup(ref Ref) (Entry, error) {
	var e Entry
	err := s.view(func(t *tx) (err error) {
		e, err = s.resolve(t.index, ref)
		return err
	})
	return e, err
}

// List is every version of every policy, by name, then by version.
func (s *Store) List() ([]Entry, error) {
	var list []Entry
	err := s.view(func(t *tx) error {
		for _, name := range slices.Sorted(maps.Keys(t.index.Policies)) {
			p := t.index.Policies[name]
			for i := range p.Versions {
				list = append(list, p.entry(name, i))
			}
		}
		return nil
	})
	return list, err
}

// Remove removes the version that ref points at or, if ref is only a name,
// every version of that policy, and returns their numbers. The numbers are not
// given again. Without force it refuses with [ErrProduction] to remove a
// version that is in production; with it, that policy is in production no more.
func (s *Store) Remove(ref Ref, force bool) ([]int, error) {
	var removed []int
	err := s.update(func(t *tx) error {
		p, at, err := s.locate(t.index, ref)
		if err != nil {
			return err
		}
		removed = []int{p.Versions[at].Version}
		if ref.Version == 0 && ref.Alias == "" {
			removed = removed[:0]
			for _, r := range p.Versions {
				removed = append(removed, r.Version)
			}
		}
		if slices.Contains(removed, p.Production) {
			if !force {
				return &fault{ErrProduction, fmt.Sprintf("%s %q is in production; promote another version first, or force its removal",
					s.stored().noun, Ref{Name: ref.Name, Version: p.Production})}
			}
			if t.index.Production == ref.Name {
				t.index.Production = ""
			}
		}
		if b := t.index.Before; b != nil && b.Ref.Name == ref.Name && slices.Contains(removed, b.Ref.Version) {
			t.index.Before = nil
		}
		for _, v := range removed {
			p.drop(v)
		}
		return s.discard(t, ref.Name, removed)
	})
	if err != nil {
		return nil, err
	}
	return removed, nil
}

// entry describes the i-th of p's versions.
func (p *policy) entry(name string, i int) Entry {
	r := &p.Versions[i]
	return Entry{Name: name, Version: r.Version, Created: r.Created, Digest: r.Digest, Size: r.Size,
		Aliases: p.aliases(r.Version), Meta: r.Meta, Forced: r.Forced, Rule: r.Rule, Predictor: r.Predictor}
}

// resolve is the entry that ref points at.
func (s *Store) resolve(x *index, ref Ref) (Entry, error) {
	p, i, err := s.locate(x, ref)
	if err != nil {
		return Entry{}, err
	}
	return p.entry(ref.Name, i), nil
}

// locate is the policy that ref points at, and the position of its version.
func (s *Store) locate(x *index, ref Ref) (*policy, int, error) {
	p, err := s.policy(x, ref.Name)
	if err != nil {
		return nil, 0, err
	}
	v := ref.Version
	switch ref.Alias {
	case "":
		v = cmp.Or(v, p.Production, p.newest())
	case Production:
		v = p.Production
	case Previous:
		v = p.Previous
	case Newest:
		v = p.newest()
	default:
		v = 0
	}
	if i := p.find(v); i >= 0 {
		return p, i, nil
	}
	if ref.Alias != "" {
		return nil, 0, &fault{ErrNotFound, fmt.Sprintf("%s %q has no version called %q", s.stored().noun, ref.Name, ref.Alias)}
	}
	return nil, 0, s.noVersion(ref.Name, v, p)
}

func (s *Store) noVersion(name string, v int, p *policy) error {
	return &fault{ErrNotFound, fmt.Sprintf("%s %q has no version %d; it has %s", s.stored().noun, name, v, p.versions())}
}

// policy is the policy of a name that has versions.
func (s *Store) policy(x *index, name string) (*policy, error) {
	if p := x.Policies[name]; p != nil && len(p.Versions) > 0 {
		return p, nil
	}
	var names []string
	for _, n := range slices.Sorted(maps.Keys(x.Policies)) {
		if len(x.Policies[n].Versions) > 0 {
			names = append(names, n)
		}
	}
	kind := s.stored()
	has := fmt.Sprintf("it has no %s yet: %s makes one", kind.noun, kind.maker)
	if len(names) > 0 {
		has = "it has " + strings.Join(names, ", ")
	}
	return nil, &fault{ErrNotFound, fmt.Sprintf("no %s %q in store %s; %s", kind.noun, name, s.Path, has)}
}

// versions lists the numbers of p's versions.
func (p *policy) versions() string {
	var list []string
	for _, r := range p.Versions {
		list = append(list, fmt.Sprint(r.Version))
	}
	return strings.Join(list, ", ")
}
