package queue_test

import (
	"math"
	"testing"

	"gearshift/router/queue"
)

// What waits stays, in its order, when the classes change under it.
func TestSetKeepsWhatWaits(t *testing.T) {
	const other = 2
	waiting := func() []*entry {
		return []*entry{at("b1", batch, "", 1), at("b2", batch, "", 2), at("u1", urgent, "", 3), at("u2", urgent, "", 4)}
	}
	for _, c := range []struct {
		name    string
		classes []queue.Class
		want    string
	}{
		{"as it was", twoLevels, "u1 u2 o b1 b2"},
		{"priorities turned over", []queue.Class{{Name: "batch", Priority: 3}, {Name: "urgent"}}, "b1 b2 o u1 u2"},
		{"one below all", []queue.Class{{Name: "batch", Priority: -1}, {Name: "urgent", Priority: -1}}, "o b1 u1 b2 u2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New[string](twoLevels, 10)
			push(t, q, waiting()...)
			q.Set(append(append([]queue.Class{}, c.classes...), queue.Class{Name: "other", Priority: 1}), 10)
			push(t, q, at("o", other, "", 9))
			if got := order(q, all); got != c.want {
				t.Errorf("order %s, want %s", got, c.want)
			}
		})
	}
}

// A lower limit sends nobody away. It lets one in for one that goes, and the number
// that waits comes down as they are served.
func TestSetToALowerLimit(t *testing.T) {
	q := queue.New[string](twoLevels, 4)
	push(t, q, at("a", batch, "", 1), at("b", batch, "", 2), at("c", batch, "", 3), at("d", batch, "", 4))
	q.Set(twoLevels, 2)
	if _, ok := q.Push(at("late", batch, "", 5)); ok || q.Len() != 4 {
		t.Errorf("%v, %d wait", ok, q.Len())
	}
	if gone, ok := q.Push(at("urgent", urgent, "", 9)); !ok || gone == nil || gone.Value != "d" || q.Len() != 4 {
		t.Errorf("in the place of %v, %v; %d wait", gone, ok, q.Len())
	}
	if got := order(q, all); got != "urgent a b c" {
		t.Errorf("order %s", got)
	}
	q.Set(twoLevels, 0)
	if _, ok := q.Push(at("late", batch, "", 5)); ok || q.Len() != 0 {
		t.Errorf("with no limit left: %v, %d wait", ok, q.Len())
	}
}

// Shares count from the change on; what a class has had before is no debt at a new level.
func TestSetChangesShares(t *testing.T) {
	classes := []queue.Class{{Name: "batch"}, {Name: "urgent"}}
	q := queue.New[string](classes, 1000)
	for i := range 400 {
		push(t, q, at("b", batch, "", i), at("u", urgent, "", i))
	}
	served := func(turns int) (share float64) {
		for range turns {
			if q.Take(all).Value == "u" {
				share += 1 / float64(turns)
			}
		}
		return share
	}
	for _, c := range []struct {
		classes []queue.Class
		want    float64
	}{
		{classes, 0.5},
		{[]queue.Class{{Name: "batch"}, {Name: "urgent", Share: 3}}, 0.75},
		{[]queue.Class{{Name: "batch"}, {Name: "urgent", Priority: 1}}, 1},
		{[]queue.Class{{Name: "batch", Priority: 1}, {Name: "urgent", Priority: 1}}, 0.5},
	} {
		q.Set(c.classes, 1000)
		if got := served(100); math.Abs(got-c.want) > 0.03 {
			t.Errorf("%v: %.2f of the turns, want %.2f", c.classes, got, c.want)
		}
	}
}
