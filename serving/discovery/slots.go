package discovery

import (
	"cmp"
	"fmt"
	"slices"
)

// Slots assigns engines to slots. An engine takes a free slot when it is first ready, and keeps it until it is gone.
// Assignments depend only on the sequence of lists, not on the order within a list.
type Slots struct {
	groups  []Group
	slots   []slot         // of all groups, in their order
	taken   map[string]int // index of the slot, by the ID of its engine
	waiting []waits        // ready engines without a slot
}

// slot is one slot with its engine.
type slot struct {
	Slot
	group    int
	taken    bool
	endpoint Endpoint // of the present engine
	last     string   // name of the last engine
}

// ChangeKind names a change of a slot.
type ChangeKind uint8

// The kinds of changes.
const (
	// Left: the engine is gone, or at another address.
	Left ChangeKind = iota
	// Took: an engine has taken the slot.
	Took
	// Ends: the engine takes no new requests.
	Ends
	// Back: the engine takes requests again.
	Back
)

var changeNames = [...]string{"left", "took", "ends", "back"}

// String returns the kind's label in metrics.
func (k ChangeKind) String() string { return changeNames[k] }

// Change reports what happened to one slot.
type Change struct {
	Kind     ChangeKind
	Replica  int
	Endpoint Endpoint
}

// NewSlots returns the slots of the groups, all free.
func NewSlots(groups []Group) *Slots {
	s := &Slots{groups: groups, taken: map[string]int{}}
	for i, g := range groups {
		for _, one := range g.Slots {
			s.slots = append(s.slots, slot{Slot: one, group: i})
		}
	}
	return s
}

// Set takes the list of all endpoints, and returns the changes that follow, with departures first. Of endpoints with
// one ID the last one counts.
func (s *Slots) Set(list []Endpoint) (changes []Change) {
	now := make(map[string]*Endpoint, len(list))
	for i := range list {
		now[list[i].ID] = &list[i]
	}
	var turns []Change
	for i := range s.slots {
		x := &s.slots[i]
		if !x.taken {
			continue
		}
		e, there := now[x.endpoint.ID]
		if !there || e.Address != x.endpoint.Address || !s.groups[x.group].takes(e) {
			changes = append(changes, Change{Left, x.Replica, x.endpoint})
			delete(s.taken, x.endpoint.ID)
			x.taken, x.last, x.endpoint = false, x.endpoint.Name, Endpoint{}
			continue
		}
		if e.takes() != x.endpoint.takes() {
			kind := Ends
			if e.takes() {
				kind = Back
			}
			turns = append(turns, Change{kind, x.Replica, *e})
		}
		x.endpoint = *e
	}
	changes = append(changes, turns...)
	var comers []Endpoint
	for id, e := range now {
		if _, has := s.taken[id]; !has && e.takes() {
			comers = append(comers, *e)
		}
	}
	slices.SortFunc(comers, func(a, b Endpoint) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for _, own := range []bool{true, false} {
		rest := comers[:0]
		for _, e := range comers {
			i := s.free(&e, own)
			if i < 0 {
				rest = append(rest, e)
				continue
			}
			x := &s.slots[i]
			x.taken, x.endpoint = true, e
			s.taken[e.ID] = i
			changes = append(changes, Change{Took, x.Replica, e})
		}
		comers = rest
	}
	s.waiting = nil
	for _, e := range comers {
		s.waiting = append(s.waiting, waits{e, s.why(&e)})
	}
	return changes
}

// why returns why the endpoint has no slot.
func (s *Slots) why(e *Endpoint) string {
	if cause := fault(s.groups, e); cause != "" {
		return cause
	}
	for i := range s.slots {
		if x := &s.slots[i]; x.twin(e) && s.groups[x.group].takes(e) {
			return fmt.Sprintf("its address has a slot already, as %q; want one name for each address", x.endpoint.Name)
		}
	}
	return "its slots are taken; want more slots in the scenario"
}

// twin reports whether the slot's engine is at the endpoint's address under another name. One that ends may be replaced
// at its address.
func (x *slot) twin(e *Endpoint) bool {
	return x.taken && x.endpoint.Address == e.Address && !x.endpoint.Ending
}

// free returns a free slot for the endpoint: the one that it names or had before, or else the first unused one, or else
// the first free one. It returns −1 if there is none, or the address has a slot of the variant already.
func (s *Slots) free(e *Endpoint, own bool) int {
	var has []string // variants
	for i := range s.slots {
		if x := &s.slots[i]; x.twin(e) {
			has = append(has, s.groups[x.group].Variant)
		}
	}
	best, rank := -1, 3
	for i := range s.slots {
		x := &s.slots[i]
		if x.taken || !s.groups[x.group].takes(e) || slices.Contains(has, s.groups[x.group].Variant) {
			continue
		}
		r := 2
		switch {
		case x.Host == e.Host:
			r = 0
		case own:
			if r = 3; x.last != "" && x.last == e.Name {
				r = 1
			}
		case x.last == "":
			r = 1
		}
		if r < rank {
			best, rank = i, r
		}
	}
	return best
}
