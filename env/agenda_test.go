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
	var a agenda
	var naive []item
	inOrder := func(x, y item) int {
		if x.before(y) {
			return -1
		}
		return 1
	}
	for n := range 3000 {
		switch random.IntN(4) {
		case 0, 1:
			x := item{at: time.Duration(random.IntN(50)), what: what(random.IntN(4)), index: n}
			a.add(x)
			naive = append(naive, x)
		case 2:
			if len(naive) == 0 {
				continue
			}
			slices.SortFunc(naive, inOrder)
			if x := a.take(); x != naive[0] {
				t.Fatalf("step %d: took %+v, want %+v", n, x, naive[0])
			}
			naive = naive[1:]
		case 3:
			off := random.IntN(9)
			change := func(x *item) bool {
				if x.index%10 == off {
					x.at += 7
				}
				return x.index%40 != off
			}
			a.change(change)
			kept := naive[:0]
			for _, x := range naive {
				if change(&x) {
					kept = append(kept, x)
				}
			}
			naive = kept
		}
		if _, ok := a.first(); ok != (len(naive) > 0) {
			t.Fatalf("step %d: %d items, first %t", n, len(naive), ok)
		}
	}
}

func BenchmarkAgenda(b *testing.B) {
	var a agenda
	for i := range 16 {
		a.add(item{at: time.Duration(i), what: gaugesRead, index: i})
	}
	b.ReportAllocs()
	for b.Loop() {
		x := a.take()
		x.at += 16
		a.add(x)
	}
}
