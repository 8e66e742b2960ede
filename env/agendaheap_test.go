package env

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The agenda gives its items in order of their times, and those of equal times by what
// they are, whatever the order in which they were added, moved and taken.
func TestAgendaIsInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var a Agenda
	var naive []Item
	inOrder := func(x, y Item) int {
		if x.Before(y) {
			return -1
		}
		return 1
	}
	for n := range 3000 {
		switch random.IntN(4) {
		case 0, 1:
			x := Item{At: time.Duration(random.IntN(50)), Kind: ItemKind(random.IntN(4)), Index: n}
			a.Add(x)
			naive = append(naive, x)
		case 2:
			if len(naive) == 0 {
				continue
			}
			slices.SortFunc(naive, inOrder)
			if x := a.Take(); x != naive[0] {
				t.Fatalf("step %d: took %+v, want %+v", n, x, naive[0])
			}
			naive = naive[1:]
		case 3:
			off := random.IntN(9)
			change := func(x *Item) bool {
				if x.Index%10 == off {
					x.At += 7
				}
				return x.Index%40 != off
			}
			a.Change(change)
			kept := naive[:0]
			for _, x := range naive {
				if change(&x) {
					kept = append(kept, x)
				}
			}
			naive = kept
		}
		if _, ok := a.First(); ok != (len(naive) > 0) {
			t.Fatalf("step %d: %d items, first %t", n, len(naive), ok)
		}
	}
}

func BenchmarkAgenda(b *testing.B) {
	var a Agenda
	for i := range 16 {
		a.Add(Item{At: time.Duration(i), Kind: 7, Index: i})
	}
	b.ReportAllocs()
	for b.Loop() {
		x := a.Take()
		x.At += 16
		a.Add(x)
	}
}
