package checkpoints_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/checkpoints"
)

// model is what a store should do, in the plainest form: per name, its versions
// and aliases.
type model struct {
	keep       int
	policies   map[string]*modelPolicy
	production string
	runs       map[string][]byte
	ended      map[string]checkpoints.Ref // by run
}

type modelPolicy struct {
	last, production, previous int
	seeds                      map[int]uint64 // by version
}

func (m *model) policy(name string) *modelPolicy {
	if m.policies[name] == nil {
		m.policies[name] = &modelPolicy{seeds: map[int]uint64{}}
	}
	return m.policies[name]
}

func (p *modelPolicy) versions() []int {
	var list []int
	for v := 1; v <= p.last; v++ {
		if _, ok := p.seeds[v]; ok {
			list = append(list, v)
		}
	}
	return list
}

func (m *model) put(name string, seed uint64) int {
	p := m.policy(name)
	p.last++
	p.seeds[p.last] = seed
	list := p.versions()
	for i, v := range list {
		if i < len(list)-m.keep && v != p.production && v != p.previous {
			delete(p.seeds, v)
		}
	}
	return p.last
}

func (m *model) promote(name string, v int) bool {
	p := m.policy(name)
	if _, ok := p.seeds[v]; !ok {
		return false
	}
	if v != p.production {
		p.previous, p.production = p.production, v
	}
	m.production = name
	return true
}

func (m *model) rollback(name string) bool {
	p := m.policy(name)
	if p.previous == 0 {
		return false
	}
	p.production, p.previous = p.previous, 0
	m.production = name
	return true
}

func (m *model) restore(name string, v int) bool {
	p := m.policy(name)
	if _, ok := p.seeds[v]; !ok {
		return false
	}
	if v != p.production {
		p.previous, p.production = 0, v
	}
	m.production = name
	return true
}

// remove removes one version, or all for 0.
func (m *model) remove(name string, v int, force bool) bool {
	p := m.policy(name)
	list := []int{v}
	if v == 0 {
		list = p.versions()
	}
	_, ok := p.seeds[v]
	if len(p.seeds) == 0 || v != 0 && !ok || slices.Contains(list, p.production) && !force {
		return false
	}
	for _, v := range list {
		delete(p.seeds, v)
		if v == p.production {
			p.production = 0
			if m.production == name {
				m.production = ""
			}
		}
		if v == p.previous {
			p.previous = 0
		}
	}
	return true
}

func TestRandomOperationsAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := newStore(t)
	s.Keep = 3
	m := &model{keep: 3, policies: map[string]*modelPolicy{}, runs: map[string][]byte{}, ended: map[string]checkpoints.Ref{}}
	put(t, s, "a", 0, m.put("a", 0))
	for i := range 150 {
		step(t, s, m, rng, i)
		compare(t, s, m)
		if t.Failed() {
			t.Fatalf("after operation %d", i)
		}
	}
}

// step does one random operation to both.
func step(t *testing.T, s *checkpoints.Store, m *model, rng *rand.Rand, i int) {
	name := []string{"a", "b", "c"}[rng.IntN(3)]
	run := []string{"x", "y"}[rng.IntN(2)]
	v := 1 + rng.IntN(m.policy(name).last+1)
	agree := func(what string, want bool, err error) {
		if (err == nil) != want {
			t.Errorf("%s: %v, want success: %t", what, err, want)
		}
	}
	switch rng.IntN(12) {
	case 0, 1, 2:
		put(t, s, name, uint64(i), m.put(name, uint64(i)))
	case 3, 4:
		err := s.Promote(name, v, "")
		agree(fmt.Sprintf("Promote(%s, %d)", name, v), m.promote(name, v), err)
	case 5:
		_, err := s.Rollback(name)
		agree("Rollback "+name, m.rollback(name), err)
	case 6:
		if rng.IntN(4) == 0 {
			v = 0
		}
		force := rng.IntN(2) == 0
		_, err := s.Remove(checkpoints.Ref{Name: name, Version: v}, force)
		agree(fmt.Sprintf("Remove(%s, %d, %t)", name, v, force), m.remove(name, v, force), err)
	case 7:
		progress := noise(uint64(i), rng.IntN(1<<18))
		agree("PutTraining "+run, true, s.PutTraining(run, nil, progress))
		m.runs[run] = progress
		delete(m.ended, run)
	case 8, 9:
		_, want := m.runs[run]
		over := [][]string{nil, {run}, {"x", "y"}}[rng.IntN(3)]
		v, _, err := s.Finish(run, name, sample(t, uint64(i)), epoch, over...)
		agree("Finish "+run, want, err)
		if want {
			progress := m.runs[run]
			for _, r := range over {
				delete(m.runs, r)
				delete(m.ended, r)
			}
			if slices.Contains(over, run) {
				progress = nil
			}
			m.runs[run] = progress
			m.ended[run] = checkpoints.Ref{Name: name, Version: v}
			if wanted := m.put(name, uint64(i)); v != wanted {
				t.Errorf("Finish = %d, want %d", v, wanted)
			}
		}
	case 10:
		agree("Forget "+run, true, s.Forget(func(r string) bool { return r == run }))
		delete(m.runs, run)
		delete(m.ended, run)
	case 11:
		err := s.Restore(name, v)
		agree(fmt.Sprintf("Restore(%s, %d)", name, v), m.restore(name, v), err)
	}
}

// compare reads the whole store.
func compare(t *testing.T, s *checkpoints.Store, m *model) {
	var want []string
	for _, name := range []string{"a", "b", "c"} {
		p := m.policy(name)
		for _, v := range p.versions() {
			line := fmt.Sprintf("%s@%d", name, v)
			if v == p.previous {
				line += " previous"
			}
			if v == p.production {
				line += " production"
			}
			want = append(want, line)
			wantSeed(t, s, checkpoints.Ref{Name: name, Version: v}, p.seeds[v])
		}
		if list := p.versions(); len(list) > 0 {
			v := p.production
			if v == 0 {
				v = slices.Max(list)
			}
			wantSeed(t, s, checkpoints.Ref{Name: name}, p.seeds[v])
		}
	}
	wantVersions(t, s, want...)
	ref, err := s.Production()
	if p := m.policy(m.production); p.production == 0 {
		if !errors.Is(err, checkpoints.ErrNotFound) {
			t.Errorf("Production = %v, %v; want none", ref, err)
		}
	} else if err != nil || ref != (checkpoints.Ref{Name: m.production, Version: p.production}) {
		t.Errorf("Production = %v, %v; want %s@%d", ref, err, m.production, p.production)
	}
	for _, run := range []string{"x", "y"} {
		progress, ok := m.runs[run]
		got, err := s.GetTraining(run)
		if ok != (err == nil) || !slices.Equal(got.Progress, progress) || got.Policy != m.ended[run] {
			t.Errorf("training %s: %d bytes, ended with %q, %v", run, len(got.Progress), got.Policy, err)
		}
	}
}

func wantSeed(t *testing.T, s *checkpoints.Store, ref checkpoints.Ref, seed uint64) {
	t.Helper()
	if c, _, err := s.Get(ref); err != nil || c.Meta.Seed != seed {
		t.Errorf("Get(%s) = %v, want the policy of seed %d", ref, err, seed)
	}
}
