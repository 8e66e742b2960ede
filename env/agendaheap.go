package env

import (
	"cmp"
	"time"
)

// Agenda holds what is due at some time. It is a binary heap, whose zero value is empty.
type Agenda struct{ items []Item }

// ItemKind is the sort of an item, which its simulation numbers. At equal times the lower comes
// first, so that runs repeat exactly.
type ItemKind uint8

// Item is one entry of an agenda.
type Item struct {
	At   time.Duration
	Kind ItemKind
	// Index names what it is about.
	Index int
}

// Before reports whether x is due before y.
func (x Item) Before(y Item) bool {
	return cmp.Or(cmp.Compare(x.At, y.At), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Index, y.Index)) < 0
}

// First returns the item that is due next, and false if there is none.
func (a *Agenda) First() (Item, bool) {
	if len(a.items) == 0 {
		return Item{}, false
	}
	return a.items[0], true
}

// Add adds an item.
func (a *Agenda) Add(x Item) {
	a.items = append(a.items, x)
	for i := len(a.items) - 1; i > 0 && a.items[i].Before(a.items[(i-1)/2]); i = (i - 1) / 2 {
		a.items[i], a.items[(i-1)/2] = a.items[(i-1)/2], a.items[i]
	}
}

// Take removes the first item, of which there must be one.
func (a *Agenda) Take() Item {
	x := a.items[0]
	last := len(a.items) - 1
	a.items[0] = a.items[last]
	a.items = a.items[:last]
	a.sink(0)
	return x
}

// sink moves the item at i down to where it belongs.
func (a *Agenda) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(a.items) {
			return
		}
		if right := child + 1; right < len(a.items) && a.items[right].Before(a.items[child]) {
			child = right
		}
		if !a.items[child].Before(a.items[i]) {
			return
		}
		a.items[i], a.items[child] = a.items[child], a.items[i]
		i = child
	}
}

// Change calls f for each item, which f may change, and keeps those for which f returns
// true.
func (a *Agenda) Change(f func(x *Item) (keep bool)) {
	kept := a.items[:0]
	for _, x := range a.items {
		if f(&x) {
			kept = append(kept, x)
		}
	}
	a.items = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		a.sink(i)
	}
}

// CopyFrom makes the agenda the same as o.
func (a *Agenda) CopyFrom(o *Agenda) { a.items = append(a.items[:0], o.items...) }
