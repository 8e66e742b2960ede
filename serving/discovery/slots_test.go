package discovery

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"testing"
)

// fleetOf returns two groups of one variant and one of another.
func fleetOf() []Group {
	n := 0
	slots := func(prefix string, count int) (list []Slot) {
		for i := range count {
			list = append(list, Slot{n, fmt.Sprint(prefix, "-", i)})
			n++
		}
		return list
	}
	return []Group{
		{Name: "small", Variant: "small", Host: "l4", Selector: map[string]string{"app": "small"}, Slots: slots("small", 3)},
		{Name: "fast", Variant: "small", Host: "h100", Selector: map[string]string{"app": "fast"}, Slots: slots("fast", 2)},
		{Name: "big", Variant: "big", Host: "h100", Label: "gearshift.dev/variant", Slots: slots("big", 2)},
	}
}

// naive assigns engines to replicas by the letter of the documentation.
type naive struct {
	groups []Group
	has    map[int]Endpoint // by replica
	had    map[int]string   // name of the last engine, by replica
}

func (m *naive) set(list []Endpoint) {
	for replica, e := range m.has {
		stays := false
		for _, x := range list {
			if x.ID == e.ID && x.Address == e.Address && m.fits(replica, x) {
				stays = true
				m.has[replica] = x
			}
		}
		if !stays {
			delete(m.has, replica)
			m.had[replica] = e.Name
		}
	}
	var new []Endpoint
	for _, x := range list {
		placed := false
		for _, e := range m.has {
			placed = placed || e.ID == x.ID
		}
		if !placed && x.Ready && !x.Ending {
			new = append(new, x)
		}
	}
	sort.Slice(new, func(i, j int) bool { return new[i].Name+"\x00"+new[i].ID < new[j].Name+"\x00"+new[j].ID })
	var rest []Endpoint
	for _, x := range new { // those with a slot of their own
		if r, ok := m.first(x, func(_ int, host string) bool { return host == x.Host }); ok {
			m.has[r] = x
		} else if r, ok := m.first(x, func(r int, _ string) bool { return m.had[r] != "" && m.had[r] == x.Name }); ok {
			m.has[r] = x
		} else {
			rest = append(rest, x)
		}
	}
	for _, x := range rest {
		if r, ok := m.first(x, func(r int, _ string) bool { return m.had[r] == "" }); ok {
			m.has[r] = x
		} else if r, ok := m.first(x, func(int, string) bool { return true }); ok {
			m.has[r] = x
		}
	}
}

// first returns the first free replica for the endpoint for which the condition holds.
func (m *naive) first(x Endpoint, ok func(replica int, host string) bool) (int, bool) {
	for _, g := range m.groups {
		for _, s := range g.Slots {
			if _, has := m.has[s.Replica]; !has && !m.twin(x, g.Variant) && m.fits(s.Replica, x) && ok(s.Replica, s.Host) {
				return s.Replica, true
			}
		}
	}
	return 0, false
}

// twin reports whether another engine at the endpoint's address has a slot of the variant.
func (m *naive) twin(x Endpoint, variant string) bool {
	for _, g := range m.groups {
		for _, s := range g.Slots {
			if e, has := m.has[s.Replica]; has && g.Variant == variant && e.Address == x.Address && !e.Ending {
				return true
			}
		}
	}
	return false
}

func (m *naive) fits(replica int, x Endpoint) bool {
	for _, g := range m.groups {
		for _, s := range g.Slots {
			if s.Replica == replica {
				return g.takes(&x)
			}
		}
	}
	return false
}

// Slots of random lists match a naive model's, whatever the lists' order, and the reported changes lead there: no
// engine has two slots, none is left by an engine that still has it, and an engine keeps its slot while it lives.
func TestSlotsAgainstAModel(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s, m := NewSlots(fleetOf()), &naive{fleetOf(), map[int]Endpoint{}, map[int]string{}}
		followed := map[int]Endpoint{} // by the changes alone
		var list []Endpoint
		for step := range 300 {
			list = mutate(rng, list, step)
			shuffled := slices.Clone(list)
			rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			before := taken(s)
			for _, c := range s.Set(shuffled) {
				e, has := followed[c.Replica]
				switch {
				case (c.Kind == Took) == has, has && e.ID != c.Endpoint.ID:
					t.Fatalf("seed %d step %d: %v of replica %d, which %v has", seed, step, c.Kind, c.Replica, e.ID)
				case c.Kind == Left:
					delete(followed, c.Replica)
				default:
					followed[c.Replica] = c.Endpoint
				}
			}
			m.set(list)
			if got := taken(s); !reflect.DeepEqual(got, m.has) {
				t.Fatalf("seed %d step %d: slots %v, want %v", seed, step, got, m.has)
			}
			for replica, e := range taken(s) {
				if f := followed[replica]; f.ID != e.ID || f.takes() != e.takes() || f.Address != e.Address {
					t.Fatalf("seed %d step %d: replica %d has %+v, and the changes say %+v", seed, step, replica, e, f)
				}
			}
			if len(followed) != len(m.has) {
				t.Fatalf("seed %d step %d: the changes lead to %v", seed, step, followed)
			}
			if again := s.Set(list); len(again) > 0 {
				t.Fatalf("seed %d step %d: the same list changes %v", seed, step, again)
			}
			keeps(t, before, taken(s), list)
			ready := 0
			for _, e := range list {
				if _, has := s.taken[e.ID]; e.takes() && !has {
					ready++
				}
			}
			if ready != len(s.waiting) {
				t.Fatalf("seed %d step %d: %d wait, want %d", seed, step, len(s.waiting), ready)
			}
		}
	}
}

// keeps fails if an unchanged engine has another slot.
func keeps(t *testing.T, before, after map[int]Endpoint, list []Endpoint) {
	t.Helper()
	for replica, e := range before {
		i := slices.IndexFunc(list, func(x Endpoint) bool { return x.ID == e.ID })
		if i >= 0 && list[i].Address == e.Address && reflect.DeepEqual(list[i].Labels, e.Labels) && after[replica].ID != e.ID {
			t.Fatalf("%s lives, and has lost slot %d", e.ID, replica)
		}
	}
}

// taken returns the endpoints by replica.
func taken(s *Slots) map[int]Endpoint {
	list := map[int]Endpoint{}
	for _, x := range s.slots {
		if x.taken {
			list[x.Replica] = x.endpoint
		}
	}
	return list
}

// mutate makes engines come, go, return by their names, move, end, and lose and regain readiness.
func mutate(rng *rand.Rand, list []Endpoint, step int) []Endpoint {
	list = slices.Clone(list)
	for range 1 + rng.IntN(3) {
		switch n := rng.IntN(8); {
		case n < 3 || len(list) == 0:
			e := Endpoint{ID: fmt.Sprint("id", step, "-", len(list), "-", rng.IntN(1000)), Name: fmt.Sprint("pod-", rng.IntN(9)), Address: fmt.Sprint("10.0.0.", rng.IntN(30), ":8000"), Ready: rng.IntN(4) > 0}
			switch rng.IntN(5) {
			case 0:
				e.Labels = map[string]string{"app": "small", "x": "y"}
			case 1:
				e.Labels = map[string]string{"app": "fast"}
			case 2:
				e.Variant, e.Labels = "big", map[string]string{}
			case 3:
				e.Variant = "small"
			case 4:
				e.Variant, e.Host = "small", []string{"h100", "small-2", "l4", "nowhere"}[rng.IntN(4)]
			}
			list = append(list, e)
		case n == 3:
			i := rng.IntN(len(list))
			list = slices.Delete(list, i, i+1)
		case n == 4:
			i := rng.IntN(len(list))
			list[i].Address = fmt.Sprint("10.0.1.", rng.IntN(50), ":8000")
		case n == 5:
			list[rng.IntN(len(list))].Ending = true
		default:
			i := rng.IntN(len(list))
			list[i].Ready = !list[i].Ready
		}
	}
	if len(list) > 14 {
		list = list[4:]
	}
	return list
}
