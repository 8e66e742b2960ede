package checkpoints

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// RuleName is the name under which rules of the reference's kind are stored: the word
// before the colon.
func RuleName(rule string) string {
	kind, _, _ := strings.Cut(rule, ":")
	return kind
}

// PutRule stores a rule, by its reference, as a version of the name of its kind, so that it
// can be promoted, rolled back and removed as any other. It returns the version that stands
// for the rule already, if there is one. Otherwise it is as [Store.Put].
func (s *Store) PutRule(rule string, created time.Time) (stored Entry, removed []int, err error) {
	if err := checkName("rule", RuleName(rule)); err != nil {
		return Entry{}, nil, fmt.Errorf("cannot store rule %q: %w", rule, err)
	}
	if err := s.create(); err != nil {
		return Entry{}, nil, err
	}
	err = s.update(func(t *tx) error {
		if e, ok := t.index.rule(rule); ok {
			stored = e
			return nil
		}
		data := []byte(rule)
		r := newVersion(data, created)
		r.Rule = rule
		v, gone, err := s.add(t, RuleName(rule), r, data)
		if err != nil {
			return err
		}
		removed = gone
		p := t.index.Policies[RuleName(rule)]
		stored = p.entry(RuleName(rule), p.find(v))
		return nil
	})
	return stored, removed, err
}

// LookupRule is the version that stands for the rule. None is [ErrNotFound].
func (s *Store) LookupRule(rule string) (Entry, error) {
	var e Entry
	err := s.view(func(t *tx) error {
		var ok bool
		if e, ok = t.index.rule(rule); !ok {
			return &fault{ErrNotFound, fmt.Sprintf("the rule %s is not in store %s; `gearshift policy promote` puts it there", rule, s.Path)}
		}
		return nil
	})
	return e, err
}

// rule is the version that stands for the rule.
func (x *index) rule(rule string) (Entry, bool) {
	name := RuleName(rule)
	p := x.Policies[name]
	if p == nil {
		return Entry{}, false
	}
	i := slices.IndexFunc(p.Versions, func(v version) bool { return v.Rule == rule })
	if i < 0 {
		return Entry{}, false
	}
	return p.entry(name, i), true
}
