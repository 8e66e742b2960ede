package agents

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/control"
)

// periodic is a Controller that notes when it is woken, and wants to be again.
type periodic struct {
	every time.Duration // 0 never
	due   time.Duration
	woken []time.Duration
	seen  []control.Kind
}

// Observe implements [control.Controller].
func (p *periodic) Observe(e control.Event) { p.seen = append(p.seen, e.Kind) }

// Wake implements [control.Controller].
func (p *periodic) Wake(now time.Duration) time.Duration {
	p.woken = append(p.woken, now)
	if p.every == 0 {
		return control.Never
	}
	if now >= p.due {
		p.due = now + p.every
	}
	return p.due
}

// Controllers are woken at the earliest time that one asks for, and by events.
func TestRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() time.Duration { return time.Since(start) }
		often, never := &periodic{every: 3 * time.Second}, &periodic{}
		r := NewRunner(clock, often, never)
		r.Start()
		time.Sleep(4 * time.Second)
		r.Observe(control.Event{Kind: control.Loaded})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r.Stop()
		want := []time.Duration{0, 3 * time.Second, 4 * time.Second, 6 * time.Second}
		if !slices.Equal(often.woken, want) || !slices.Equal(never.woken, want) {
			t.Errorf("woken at %v and %v, want %v", often.woken, never.woken, want)
		}
		if !slices.Equal(never.seen, []control.Kind{control.Loaded}) {
			t.Errorf("saw %v, want the load", never.seen)
		}
		r.Observe(control.Event{Kind: control.Loaded}) // nobody is woken any more
		time.Sleep(time.Hour)
		r.Stop()
		if len(often.woken) != len(want) {
			t.Errorf("woken at %v after the end", often.woken[len(want):])
		}
	})
}

// What nothing is due for sleeps until something happens.
func TestRunnerThatHasNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		idle := &periodic{}
		r := NewRunner(func() time.Duration { return time.Since(start) }, idle)
		r.Start()
		defer r.Stop()
		time.Sleep(time.Hour)
		r.Nudge()
		r.Nudge()
		synctest.Wait()
		if n := len(idle.woken); n < 2 || n > 3 || idle.woken[1] != time.Hour {
			t.Errorf("woken at %v, want once at the start and then at the nudge", idle.woken)
		}
	})
}
