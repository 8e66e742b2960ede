package control_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// every wakes at each multiple of a period, and once more as soon as it has seen an event.
type every struct {
	name   string
	period time.Duration
	next   time.Duration
	seen   []control.Event
	log    *[]string
	react  func(now time.Duration) // may be nil
}

func (c *every) Observe(e control.Event) { c.seen = append(c.seen, e) }

func (c *every) Wake(now time.Duration) time.Duration {
	*c.log = append(*c.log, fmt.Sprintf("%s@%v", c.name, now))
	for c.next <= now {
		c.next += c.period
	}
	if c.react != nil {
		c.react(now)
	}
	return c.next
}

// idle has nothing to do.
type idle struct{ woken int }

func (c *idle) Observe(control.Event) {}

func (c *idle) Wake(time.Duration) time.Duration {
	c.woken++
	return control.Never
}

func TestSetWakesWhoIsDueInOrder(t *testing.T) {
	var log []string
	s := control.NewSet(&every{name: "a", period: 4, log: &log}, &idle{}, &every{name: "b", period: 6, log: &log})
	for now := s.Next(); now <= 12; now = s.Next() {
		if next := s.Wake(now); next != s.Next() || next <= now {
			t.Fatalf("woken at %v, next at %v, or %v", now, next, s.Next())
		}
	}
	want := []string{"a@0s", "b@0s", "a@4ns", "b@6ns", "a@8ns", "a@12ns", "b@12ns"}
	if !slices.Equal(log, want) {
		t.Errorf("woken %v, want %v", log, want)
	}
}

func TestAnEventMakesAllDue(t *testing.T) {
	var log []string
	a, b := &every{name: "a", period: 10, log: &log}, &idle{}
	s := control.NewSet(a, b)
	s.Wake(0)
	s.Observe(control.Event{At: 3, Kind: control.Broken, Replica: 2})
	if s.Next() != 3 {
		t.Errorf("due at %v, want the event's time", s.Next())
	}
	if next := s.Wake(3); next != 10 || b.woken != 2 || len(a.seen) != 1 || a.seen[0].Replica != 2 {
		t.Errorf("next at %v; the idle one woken %d times, seen %v", next, b.woken, a.seen)
	}
}

// What a member brings about is an event that those before it hear of at the same time.
func TestEventsWhileOneIsAwake(t *testing.T) {
	var log []string
	first, second := &every{name: "first", period: 10, log: &log}, &every{name: "second", period: 5, log: &log}
	s := control.NewSet(first, second)
	second.react = func(now time.Duration) {
		if now == 5 && len(first.seen) == 0 {
			s.Observe(control.Event{At: now, Kind: control.Loaded})
		}
	}
	for now := s.Next(); now <= 5; now = s.Next() {
		s.Wake(now)
	}
	if want := []string{"first@0s", "second@0s", "second@5ns", "first@5ns", "second@5ns"}; !slices.Equal(log, want) || len(first.seen) != 1 {
		t.Errorf("woken %v, want %v", log, want)
	}
}

// standing asks for the time that it is.
type immediate struct{ woken int }

func (*immediate) Observe(control.Event) {}

func (c *immediate) Wake(now time.Duration) time.Duration {
	c.woken++
	return now
}

func TestTimeGoesOn(t *testing.T) {
	c := &immediate{}
	s := control.NewSet(c)
	for now := s.Next(); now < 10; now = s.Next() {
		s.Wake(now)
	}
	if c.woken != 10 {
		t.Errorf("woken %d times within 10 ns", c.woken)
	}
}

func TestRouseMakesAllDue(t *testing.T) {
	var log []string
	a, b := &every{name: "a", period: 10, log: &log}, &idle{}
	s := control.NewSet(a, b)
	s.Wake(0)
	s.Rouse(4)
	if s.Next() != 4 || len(a.seen) != 0 {
		t.Errorf("due at %v after %d events, want 4ns without any", s.Next(), len(a.seen))
	}
	if next := s.Wake(4); next != 10 || b.woken != 2 {
		t.Errorf("next at %v; the idle one woken %d times, want 10ns and twice", next, b.woken)
	}
}

func TestAnEmptySetIsNeverDue(t *testing.T) {
	var s control.Set
	s.Observe(control.Event{At: 5})
	if s.Next() != control.Never || s.Wake(7) != control.Never {
		t.Error("an empty set is due")
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		control.Broken.String(): "broken", control.Changed.String(): "changed", control.Kind(99).String(): "kind 99",
		control.Load.String(): "load", control.Notify.String(): "notify", control.Verb(99).String(): "verb 99",
		control.Action{Verb: control.Sleep, Replica: 3}.String(): "sleep replica 3",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestEndsOfActions(t *testing.T) {
	for _, x := range []struct {
		verb control.Verb
		done control.Kind
		is   fleet.State
	}{
		{control.Load, control.Loaded, fleet.Up}, {control.Unload, control.Unloaded, fleet.Cold},
		{control.Sleep, control.Slept, fleet.Warm}, {control.Wake, control.Woken, fleet.Up},
	} {
		if x.verb.Done() != x.done || x.verb.State() != x.is {
			t.Errorf("%v ends with %v and leaves the replica %v", x.verb, x.verb.Done(), x.verb.State())
		}
	}
}

func BenchmarkSetNext(b *testing.B) {
	s := control.NewSet(&idle{}, &idle{}, &idle{})
	s.Wake(0)
	b.ReportAllocs()
	for b.Loop() {
		s.Next()
	}
}
